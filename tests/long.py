"""What `make check` leaves to `make test`: files, or functions of them, that take seconds of their own, for many
generated inputs or for programs that they start."""

LONG = (
    "tests/compat/test_irreducible.py::test_whatever_is_installed_no_change_can_be_dropped",
    "tests/examples/test_action.py",
    "tests/examples/test_plugin.py",
    "tests/examples/test_precommit.py",
    "tests/examples/test_pytest_plugin.py",
    "tests/examples/test_slurm.py",
    "tests/flow/test_equivalence.py",
    "tests/formats/hydra/test_composer.py::test_generated_trees_compose_as_hydra_composes_them",
    "tests/formats/hydra/test_grammar.py::test_any_text_is_read_or_refused_as_hydra_does",
    "tests/frameworks/test_worlds.py::test_what_cannot_be_read_decides_nothing",
    "tests/fuzz/test_fuzz.py",
    "tests/logs/test_fuzz.py",
    "tests/logs/test_linear.py::test_twice_the_log_is_twice_the_work",
    "tests/logs/test_wrappings.py::test_a_failure_is_the_same_in_every_wrapping",
    "tests/redact/test_canaries.py",
    "tests/refresh/test_command.py::test_an_index_that_does_not_answer_leaves_every_table_as_it_was",
    "tests/report/test_every_report.py",
    "tests/report/test_html.py::test_a_browser_shows_it_without_a_word_of_complaint",
    "tests/test_bounds.py::test_a_hostile_launch_is_judged_or_refused_in_a_line",
    "tests/test_cli.py::test_a_full_disk_is_no_finding",
    "tests/test_cli.py::test_names_and_terminals_without_utf_8",
    "tests/test_cli.py::test_streams_that_are_closed_are_nobodys_else",
    "tests/test_docs.py",
    "tests/test_reads.py::test_no_pass_survives_the_loss_of_a_fact_that_it_read",
)
