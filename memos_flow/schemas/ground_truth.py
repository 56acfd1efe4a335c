"""What the harness knows of simulated trials. No stage of the memory and no agent reads it."""

import dataframely as dy

from memos_flow.schemas.vocabulary import CHECK_KINDS


class FaultMatrix(dy.Schema):
    """Measured: the checks that fail where a fault alone is injected into a task's solution."""

    family = dy.String(primary_key=True, min_length=1)
    task = dy.String(primary_key=True, min_length=1)
    fault = dy.String(primary_key=True, min_length=1)
    check_kind = dy.Enum(CHECK_KINDS, primary_key=True)
    #: Empty where the check has no field.
    field = dy.String(primary_key=True)


class ShownFaults(dy.Schema):
    """The faults that an execution showed."""

    execution_id = dy.Int64(primary_key=True)
    fault = dy.String(primary_key=True, min_length=1)
    #: Whether a line of the packet told the agent so, and it followed.
    misled = dy.Bool()


class RemarkFaults(dy.Schema):
    """Which fault of its task a person's remark is about; remarks that are noise are not here."""

    family = dy.String(primary_key=True, min_length=1)
    task = dy.String(primary_key=True, min_length=1)
    text_id = dy.Int64(primary_key=True)
    fault = dy.String(primary_key=True, min_length=1)
