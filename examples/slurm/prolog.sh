#!/usr/bin/env bash
# Prolog of slurmd (slurm.conf: Prolog=/etc/slurm/prolog.d/*), run as root before a job's first step on a node: says in
# the system's log what is wrong with the node itself. It never fails: a prolog that does drains the node.
RLDOCTOR=${RLDOCTOR:-/opt/rldoctor/bin/rldoctor}
# What a node answers for: driver, shared memory, limits, NCCL's variables.
CODES=RLD106,RLD113,RLD114,RLD322

told=$(timeout 20 "$RLDOCTOR" check --level static --select "$CODES" --quiet 2>&1)
status=$?
if [ "$status" -eq 1 ]; then
    logger -t rldoctor "job ${SLURM_JOB_ID:-?} on ${SLURMD_NODENAME:-$(hostname)}: $told"
fi
exit 0
