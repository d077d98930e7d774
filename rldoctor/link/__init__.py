"""A linker for the packages of an environment: does the trainer find in the engine what it asks for?

The modules that a launch imports are read (never imported) and followed statement by statement, with the conditions
that can be told from what is installed; every name, attribute and call that crosses a package border is looked up in
the source of the other package. ``locate`` finds modules, ``provided`` says what one defines, ``values`` holds what an
expression can be known to be, ``follow`` goes through the statements, ``functions`` through what runs only when it is
called, ``observe`` collects it all as one fact and keeps it in the user's cache folder."""
