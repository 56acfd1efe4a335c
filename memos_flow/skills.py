"""Skills: callable procedures, anchored in success (section 4.6).

A skill is named by its first member: `skill_id` is that experience's `policy_id`. Members are the
experiences that were eligible; avoidances, repairs and preferences of the same domain supplement
the nearest skill.
"""

import dataframely as dy
import polars as pl

from memos_flow.lessons import THEN
from memos_flow.library import Library
from memos_flow.schemas import Eligibility, Policies, Skills, Trials
from memos_flow.schemas.vocabulary import ANCHOR_TYPES, ELIGIBILITY, LIFECYCLE_STATUSES
from memos_flow.wording import Wording, filled

_EXPERIENCE = ["lane_id", "policy_id"]
_SKILL = ["lane_id", "skill_id"]
_ENABLED = [
    "lane_id",
    "skills_enabled",
    "skills_anchor_required",
    "skills_min_gain",
    "skills_min_support",
    "skills_grouping",
    "skills_cluster_similarity",
    "validation_observational",
    "merge_guidance_lines",
]

#: What the later parts of this stage read of an experience.
_DECIDED = [
    *_EXPERIENCE,
    "status",
    "domain",
    "lesson_text_id",
    "updated_step",
    "source_trace_ids",
]


def decided(policies: dy.LazyFrame[Policies], settings: pl.LazyFrame) -> pl.LazyFrame:
    """Each experience with its `decision` (eligible, or the first reason why not) and `anchors`:
    whether it may be the main evidence of a skill.

    Tested in this order: success anchor, status, gain, support. A variant that waives the anchor
    waives the gain too.
    """
    only_observed = (
        (pl.col("experience_type") == "repair_validated")
        & (pl.col("validations") <= pl.col("observational_validations"))
        & (pl.col("validation_observational") == "ignore")
    )
    anchors = (
        pl.col("skill_eligible")
        & pl.col("experience_type").is_in(ANCHOR_TYPES)
        & pl.col("evidence_polarity").is_in(["positive", "mixed"])
        & ~only_observed
    )
    required = pl.col("skills_anchor_required")
    return (
        policies.join(settings.select(_ENABLED), on="lane_id", how="inner")
        .filter("skills_enabled")
        .with_columns(anchors=anchors)
        .with_columns(
            decision=pl.when(required & ~pl.col("anchors"))
            .then(pl.lit("no-success-anchor"))
            .when(pl.col("status") != "active")
            .then(pl.lit("status"))
            .when(required & (pl.col("gain") < pl.col("skills_min_gain")))
            .then(pl.lit("gain"))
            .when(pl.col("support") < pl.col("skills_min_support"))
            .then(pl.lit("support"))
            .otherwise(pl.lit("eligible"))
        )
        .select(*_DECIDED, *_ENABLED[1:], "anchors", "decision")
    )


def members(decided: pl.LazyFrame, skills: dy.LazyFrame[Skills], library: Library) -> pl.DataFrame:
    """`lane_id`, `policy_id`, `skill_id`: the skill of every eligible experience.

    One that is a source of a skill already stays with it. Another joins the skill of its domain
    that has the most similar member, if that is similar enough; what is left forms skills of its
    own: similar ones of one domain together. Untagged experiences are never pooled.
    """
    eligible = decided.filter(pl.col("decision") == "eligible")
    placed = _placed(eligible, skills)
    rest = eligible.join(placed, on=_EXPERIENCE, how="anti")
    joining = _nearest(rest, placed.join(decided, on=_EXPERIENCE), library)
    left = rest.join(joining, on=_EXPERIENCE, how="anti")
    return (
        pl.concat([placed, joining, _components(left, library).lazy()])
        .sort(_EXPERIENCE)
        .collect(engine="in-memory")
    )


def supplements(
    decided: pl.LazyFrame, members: pl.LazyFrame, skills: dy.LazyFrame[Skills], library: Library
) -> pl.LazyFrame:
    """`lane_id`, `policy_id`, `skill_id` of the active experiences without success that supplement
    a skill of their domain: the one they supplemented before, else the nearest."""
    others = decided.filter(
        (pl.col("status") == "active") & ~pl.col("anchors") & pl.col("domain").is_not_null()
    ).join(members, on=_EXPERIENCE, how="anti")
    own = members.join(decided, on=_EXPERIENCE)
    # A skill without an eligible member is not rebuilt, whatever it was supplemented by.
    kept = Skills.cast(skills.join(members, on=_SKILL, how="semi"))
    placed = _placed(others, kept)
    rest = others.join(placed, on=_EXPERIENCE, how="anti")
    return pl.concat([placed, _nearest(rest, own, library, at_least=False)]).sort(_EXPERIENCE)


def used(
    skills: dy.LazyFrame[Skills],
    carried: pl.LazyFrame,
    trials: dy.LazyFrame[Trials],
    settings: pl.LazyFrame,
) -> dy.LazyFrame[Skills]:
    """The skills with this step's trials counted, and the status that follows.

    eta = (passed + 1) / (tried + 2) over scored trials whose packet contained the skill (`carried`:
    `lane_id`, `channel`, `item_id`). A
    candidate is active after `skills.activate_passed` passed trials; archived at
    eta <= `skills.archive_eta` with `skills.archive_tried` trials or more.
    """
    shown = carried.filter(pl.col("channel") == "skill").select("lane_id", skill_id="item_id")
    outcomes = trials.filter(pl.col("passed").is_not_null()).select(
        "lane_id", "step", now_passed="passed"
    )
    tries = shown.join(outcomes, on="lane_id", how="inner")
    eta = (pl.col("passed") + 1) / (pl.col("tried") + 2)
    return Skills.cast(
        skills.join(tries, on=_SKILL, how="left")
        .join(
            settings.select(
                "lane_id", "skills_activate_passed", "skills_archive_eta", "skills_archive_tried"
            ),
            on="lane_id",
            how="left",
        )
        .with_columns(
            tried=pl.col("tried") + pl.col("now_passed").is_not_null().cast(pl.Int32),
            passed=pl.col("passed") + pl.col("now_passed").fill_null(False).cast(pl.Int32),
            updated_step=pl.coalesce("step", "updated_step"),
            version=pl.col("version") + pl.col("step").is_not_null().cast(pl.Int32),
        )
        .with_columns(
            status=pl.when(
                (eta <= pl.col("skills_archive_eta"))
                & (pl.col("tried") >= pl.col("skills_archive_tried"))
            )
            .then(pl.lit("archived"))
            .when(
                (pl.col("status") == "candidate")
                & (pl.col("passed") >= pl.col("skills_activate_passed"))
            )
            .then(pl.lit("active"))
            .otherwise(pl.col("status").cast(pl.String))
            .cast(pl.Enum(LIFECYCLE_STATUSES))
        )
        .select(Skills.column_names())
    )


def built(
    decided: pl.LazyFrame,
    members: pl.LazyFrame,
    supplements: pl.LazyFrame,
    confirmed: pl.LazyFrame,
    skills_before: dy.LazyFrame[Skills],
    skills: dy.LazyFrame[Skills],
    lines: pl.LazyFrame,
    starts: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> dy.LazyFrame[Skills]:
    """The skill versions of this step: those tried, and those (re)built because a source is newer.

    `confirmed`: the experiences that this step validated; `skills`: as `used` left them; `lines`:
    current guidance lines; `starts`: `lane_id`, `step`. An archived skill comes back as a candidate
    with fresh counts when a source is validated again.
    """
    taking_part = _sources(decided, members, supplements, confirmed, starts)
    told = _now(_told(taking_part, lines)).lazy()
    # What the skill has no room for is no source of it: it may be recalled by itself. Where none of
    # the members said anything that is kept, all of them are what the skill is.
    kept = told.select(*_SKILL, "text_id").join(
        lines.select("lane_id", "policy_id", "text_id"), on=["lane_id", "text_id"], how="inner"
    )
    sources = taking_part.join(
        kept.select(*_SKILL, "policy_id", kept=pl.lit(True)).unique(),
        on=[*_SKILL, "policy_id"],
        how="left",
    )
    told_by_member = (pl.col("kept") & pl.col("member")).fill_null(False).any().over(_SKILL)
    sources = sources.filter(pl.col("kept").fill_null(False) | (pl.col("member") & ~told_by_member))
    known = skills.select(*_SKILL, "source_policy_ids", before_step="built_step")
    changed = (
        sources.group_by(_SKILL)
        .agg(
            pl.col("policy_id").sort().alias("source_policy_ids"),
            pl.col("policy_id").filter("anchors").sort().alias("anchor_policy_ids"),
            pl.col("source_trace_ids").list.explode().unique().sort().alias("evidence_trace_ids"),
            newest=pl.col("updated_step").max(),
            first=pl.col("policy_id").filter("member").min(),
            step=pl.col("step").first(),
            validated=pl.col("validated_now").any(),
            anchor_required=pl.col("skills_anchor_required").first(),
            domain=pl.col("domain").first(),
        )
        .join(known.rename({"source_policy_ids": "known_ids"}), on=_SKILL, how="left")
        .filter(
            pl.col("before_step").is_null()
            | (pl.col("newest") > pl.col("before_step"))
            | (pl.col("known_ids") != pl.col("source_policy_ids"))
        )
    )
    written = _written(changed, told, decided, library, wording)
    rebuilt = _versions(written, skills, skills_before)
    tried = skills.join(rebuilt, on=_SKILL, how="anti").join(
        skills_before.select(*_SKILL, "version"), on=[*_SKILL, "version"], how="anti"
    )
    return Skills.cast(pl.concat([rebuilt, tried.select(Skills.column_names())]).sort(_SKILL))


def eligibility(
    decided: pl.LazyFrame,
    members: pl.LazyFrame,
    built: dy.LazyFrame[Skills],
    known: dy.LazyFrame[Eligibility],
    starts: pl.LazyFrame,
) -> dy.LazyFrame[Eligibility]:
    """The decisions that changed in this step. `up-to-date`: its skill was built before, and
    nothing in it is newer."""
    now = built.join(starts, on="lane_id").filter(pl.col("built_step") == pl.col("step"))
    decisions = (
        decided.join(members, on=_EXPERIENCE, how="left")
        .join(now.select(*_SKILL, fresh=pl.lit(True)), on=_SKILL, how="left")
        .join(starts, on="lane_id", how="inner")
        .with_columns(
            decision=pl.when(pl.col("skill_id").is_not_null() & pl.col("fresh").is_null())
            .then(pl.lit("up-to-date"))
            .otherwise("decision")
            .cast(pl.Enum(ELIGIBILITY))
        )
    )
    return Eligibility.cast(
        decisions.select(Eligibility.column_names())
        .join(
            known.drop("step"),
            on=[*_EXPERIENCE, "decision", "skill_id"],
            how="anti",
            nulls_equal=True,
        )
        .sort(_EXPERIENCE)
    )


def _placed(experiences: pl.LazyFrame, skills: dy.LazyFrame[Skills]) -> pl.LazyFrame:
    """Those that are a source of a skill already, with the oldest such skill."""
    sources = skills.select(*_SKILL, policy_id="source_policy_ids").explode("policy_id")
    return (
        experiences.select(_EXPERIENCE)
        .join(sources, on=_EXPERIENCE, how="inner")
        .group_by(_EXPERIENCE)
        .agg(pl.col("skill_id").min())
    )


def _nearest(
    rest: pl.LazyFrame, members: pl.LazyFrame, library: Library, *, at_least: bool = True
) -> pl.LazyFrame:
    """The skill of the same domain with the most similar member; ties: the oldest skill.

    `at_least`: only where the variant's grouping lets them be one skill.
    """
    known = members.select(
        "lane_id", "skill_id", "domain", known_id="policy_id", known_text_id="lesson_text_id"
    )
    pairs = rest.filter(pl.col("domain").is_not_null()).join(
        known, on=["lane_id", "domain"], how="inner"
    )
    compared = library.compared(pairs, "lesson_text_id", "known_text_id", "similarity")
    near = compared.filter(_pools()) if at_least else compared
    return (
        near.sort(*_EXPERIENCE, "similarity", "skill_id", descending=[False, False, True, False])
        .unique(_EXPERIENCE, keep="first", maintain_order=True)
        .select(*_EXPERIENCE, "skill_id")
    )


def _pools() -> pl.Expr:
    """Whether two experiences of one domain are one skill, by the variant's grouping."""
    grouping = pl.col("skills_grouping")
    return (grouping == "domain") | (
        (grouping == "cluster") & (pl.col("similarity") >= pl.col("skills_cluster_similarity"))
    )


def _components(left: pl.LazyFrame, library: Library) -> pl.DataFrame:
    """Connected similar experiences of one domain, named by the oldest of them."""
    other = left.select("lane_id", "domain", other_id="policy_id", other_text_id="lesson_text_id")
    pairs = (
        left.filter(pl.col("domain").is_not_null())
        .join(other, on=["lane_id", "domain"], how="inner")
        .filter(pl.col("policy_id") != pl.col("other_id"))
    )
    edges = (
        library.compared(pairs, "lesson_text_id", "other_text_id", "similarity")
        .filter(_pools())
        .select(*_EXPERIENCE, "other_id")
        .collect(engine="in-memory")
    )
    named = (left.select(*_EXPERIENCE, skill_id="policy_id").sort(_EXPERIENCE)).collect(
        engine="in-memory"
    )
    while True:
        # Each takes the lowest name among its neighbours, until nothing changes.
        lower = (
            edges.join(
                named.rename({"policy_id": "other_id", "skill_id": "other_name"}),
                on=["lane_id", "other_id"],
            )
            .group_by(_EXPERIENCE)
            .agg(pl.col("other_name").min())
        )
        further = (
            named.join(lower, on=_EXPERIENCE, how="left", maintain_order="left")
            .with_columns(skill_id=pl.min_horizontal("skill_id", "other_name"))
            .select(named.columns)
        )
        if further.equals(named):
            return named
        named = further


def _sources(
    decided: pl.LazyFrame,
    members: pl.LazyFrame,
    supplements: pl.LazyFrame,
    confirmed: pl.LazyFrame,
    starts: pl.LazyFrame,
) -> pl.LazyFrame:
    """Every source of every skill, with what the skill takes over from it."""
    placed = pl.concat(
        [
            members.with_columns(member=pl.lit(True)),
            supplements.with_columns(member=pl.lit(False)),
        ]
    )
    now = confirmed.select(*_EXPERIENCE, validated_now=pl.lit(True)).unique()
    return (
        placed.join(decided, on=_EXPERIENCE, how="inner")
        .join(starts.select("lane_id", "step"), on="lane_id", how="inner")
        .join(now, on=_EXPERIENCE, how="left")
        .with_columns(
            anchors=pl.col("anchors") & pl.col("member"),
            validated_now=pl.col("validated_now").fill_null(False),
        )
        .sort(*_SKILL, "policy_id")
    )


def _told(sources: pl.LazyFrame, lines: pl.LazyFrame) -> pl.LazyFrame:
    """The lines of each skill by `part`: of each part the newest that the variant keeps."""
    kinds = {"prefer": "do", "avoid": "avoid", "check": "check"}
    return (
        lines.join(
            sources.select(*_SKILL, "policy_id", "member", "merge_guidance_lines"),
            on=_EXPERIENCE,
            how="inner",
        )
        .with_columns(
            # What was confirmed is advice, whatever it was worded as before.
            part=pl.when(pl.col("member") & (pl.col("kind") == "check"))
            .then(pl.lit("do"))
            .otherwise(pl.col("kind").cast(pl.String).replace_strict(kinds))
            .cast(pl.Enum(["do", "avoid", "check"]))
        )
        # Of a line that several say, advice stays advice.
        .filter(pl.col("part") == pl.col("part").min().over(*_SKILL, "text_id"))
        .sort(*_SKILL, "part", "step", "policy_id", "line")
        .unique([*_SKILL, "text_id"], keep="last", maintain_order=True)
        .with_columns(newest=pl.int_range(pl.len(), 0, -1).over(*_SKILL, "part"))
        .filter(pl.col("newest") <= pl.col("merge_guidance_lines"))
    )


def _written(
    changed: pl.LazyFrame,
    told: pl.LazyFrame,
    decided: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> pl.LazyFrame:
    """Add `name_text_id` and `text_id`: members' advice step by step, then Avoid and Check."""
    heading = pl.col("part").cast(pl.String).replace_strict(dict(wording.skill_line))
    bodies = (
        library.worded(told, "text_id", "text")
        .with_columns(pl.col("text").str.split(THEN))
        .explode("text")
        .unique([*_SKILL, "text"], keep="first", maintain_order=True)
        .with_columns(line=filled(heading, lesson=pl.col("text")))
        .group_by(_SKILL, maintain_order=True)
        .agg(body=pl.col("line").str.join("\n"))
    )
    first = library.worded(
        decided.select("lane_id", "lesson_text_id", first="policy_id"), "lesson_text_id", "lesson"
    )
    named = changed.join(first, on=["lane_id", "first"], how="left").join(
        bodies, on=_SKILL, how="left"
    )
    # Cut between words, where it is too long.
    whole_words = rf"(?s)^(.{{1,{wording.skill_name_characters}}})(?:\s.*)?$"
    lesson = pl.col("lesson").str.split(THEN).list.first().str.replace(whole_words, "$1")
    lesson = lesson.str.head(wording.skill_name_characters)
    name = pl.coalesce(
        filled(pl.lit(wording.skill_name), domain=pl.col("domain"), lesson=lesson), lesson
    )
    return library.interned(
        named.with_columns(name=name, body=pl.col("body").fill_null(lesson)), "name", "body"
    ).rename({"body_text_id": "text_id"})


def _versions(
    written: pl.LazyFrame, skills: dy.LazyFrame[Skills], skills_before: dy.LazyFrame[Skills]
) -> pl.LazyFrame:
    """The next version of each rebuilt skill, or its first."""
    known = skills.select(
        *_SKILL, "created_step", "status", "tried", "passed", known=pl.lit(True)
    ).join(skills_before.select(*_SKILL, "version"), on=_SKILL, how="left")
    revived = (pl.col("status") == "archived") & pl.col("validated")
    fresh = pl.col("known").is_null() | revived
    return (
        written.join(known, on=_SKILL, how="left")
        .with_columns(
            version=pl.col("version").fill_null(0) + 1,
            created_step=pl.coalesce("created_step", "step"),
            updated_step="step",
            built_step="step",
            status=pl.when(fresh)
            .then(pl.lit("candidate"))
            .otherwise(pl.col("status").cast(pl.String))
            .cast(pl.Enum(LIFECYCLE_STATUSES)),
            tried=pl.when(fresh).then(0).otherwise("tried").cast(pl.Int32),
            passed=pl.when(fresh).then(0).otherwise("passed").cast(pl.Int32),
        )
        .select(Skills.column_names())
    )


def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")
