"""The tables, and the rules that forbid illegal states. One schema, one place."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import dataframely as dy

from memos_flow.schemas.alike_lanes import AlikeLanes
from memos_flow.schemas.arms import Arms
from memos_flow.schemas.candidate_pool import CandidatePool
from memos_flow.schemas.checks import Checks
from memos_flow.schemas.commits import Commits
from memos_flow.schemas.eligibility import Eligibility
from memos_flow.schemas.episodes import Episodes
from memos_flow.schemas.executions import Executions
from memos_flow.schemas.feedback import Feedback
from memos_flow.schemas.ground_truth import FaultMatrix, RemarkFaults, ShownFaults
from memos_flow.schemas.guidance import Guidance
from memos_flow.schemas.lanes import Lanes
from memos_flow.schemas.lessons import Lessons
from memos_flow.schemas.opportunities import Opportunities
from memos_flow.schemas.packet_items import PacketItems
from memos_flow.schemas.packets import Packets
from memos_flow.schemas.policies import Policies
from memos_flow.schemas.relations import LaneRelations
from memos_flow.schemas.repairs import Repairs
from memos_flow.schemas.skills import Skills
from memos_flow.schemas.tasks import Tasks
from memos_flow.schemas.texts import Embeddings, Texts
from memos_flow.schemas.traces import Traces
from memos_flow.schemas.trajectories import Trajectories
from memos_flow.schemas.trials import Trials
from memos_flow.schemas.variants import Variants
from memos_flow.schemas.world_models import WorldModels

#: Raised whenever a stored column changes its name, type or meaning.
SCHEMA_VERSION: Final = 4

#: Written once, before the first step.
SETUP_TABLES: Final = MappingProxyType(
    {
        "arms": Arms,
        "tasks": Tasks,
        "variants": Variants,
        "lanes": Lanes,
        "fault_matrix": FaultMatrix,
        "remark_faults": RemarkFaults,
    }
)
#: Keyed by content, shared by all lanes.
CONTENT_TABLES: Final = MappingProxyType(
    {
        "texts": Texts,
        "embeddings": Embeddings,
        "executions": Executions,
        "checks": Checks,
        "trajectories": Trajectories,
        "shown_faults": ShownFaults,
    }
)
#: Keyed by lane, by the part of a step that writes them (see `step.take_step`).
PARTS: Final[Mapping[str, Mapping[str, type[dy.Schema]]]] = MappingProxyType(
    {
        "offering": {"packets": Packets},
        "recalling": {"packet_items": PacketItems},
        "hearing": {
            "trials": Trials,
            "episodes": Episodes,
            "feedback": Feedback,
            "traces": Traces,
        },
        "learning": {
            "lessons": Lessons,
            "policies": Policies,
            "guidance": Guidance,
            "repairs": Repairs,
            "candidate_pool": CandidatePool,
            "opportunities": Opportunities,
        },
        "practising": {"skills": Skills, "eligibility": Eligibility},
        "understanding": {"world_models": WorldModels},
    }
)
LANE_TABLES: Final[Mapping[str, type[dy.Schema]]] = MappingProxyType(
    {name: schema for tables in PARTS.values() for name, schema in tables.items()}
)
#: Everything a run folder holds, beside `commits` and `alike_lanes`.
TABLES: Final[Mapping[str, type[dy.Schema]]] = MappingProxyType(
    {**SETUP_TABLES, **CONTENT_TABLES, **LANE_TABLES}
)


__all__ = [
    "CONTENT_TABLES",
    "LANE_TABLES",
    "PARTS",
    "SCHEMA_VERSION",
    "SETUP_TABLES",
    "TABLES",
    "AlikeLanes",
    "Arms",
    "CandidatePool",
    "Checks",
    "Commits",
    "Eligibility",
    "Embeddings",
    "Episodes",
    "Executions",
    "FaultMatrix",
    "Feedback",
    "Guidance",
    "LaneRelations",
    "Lanes",
    "Lessons",
    "Opportunities",
    "PacketItems",
    "Packets",
    "Policies",
    "RemarkFaults",
    "Repairs",
    "ShownFaults",
    "Skills",
    "Tasks",
    "Texts",
    "Traces",
    "Trajectories",
    "Trials",
    "Variants",
    "WorldModels",
]
