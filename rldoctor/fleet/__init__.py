"""One cluster, however many nodes: their facts held against each other, grouped into classes of equals."""
