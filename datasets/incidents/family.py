"""Seven tasks on the incident log of an operations team.

The log is invented; its quirks are what such logs have: events delivered twice, clocks of several
time zones, damaged lines, severities in three vocabularies, services under several names, incidents
that are still open or were reopened, and planned maintenance among the outages.
"""

import json
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

import polars as pl

from harness.kit import Family, Files, Task, Way, Ways

STEPS = {
    "clock": {
        "utc": Way(
            "Convert all timestamps to UTC before comparing them.",
            "ts = fromisoformat(at).astimezone(utc)",
            says=(
                "Take the offset of a timestamp into account.",
                "Bring both ends of an incident to one time zone first.",
                "The times have different offsets, normalise them.",
                "Do not compare local clock times.",
                "Never drop the offset of a timestamp.",
                "先把时间统一换算成 UTC。",
                "不要忽略时区偏移。",
            ),
        ),
        "as_written": Way(
            "Use the clock time as it is written in the log.",
            "ts = at[:19] without its offset",
            says=("The local time in the log is what counts.", "Do not convert the timestamps."),
        ),
    },
    "delivery": {
        "once": Way(
            "Keep an event that was delivered twice only once.",
            "deduplicated on event_id",
            says=(
                "Drop repeated events by their id.",
                "The same event id is one event.",
                "Remove duplicates from the log first.",
                "Do not count an event again when it was sent twice.",
                "Never treat a redelivered event as new.",
                "按事件编号去重。",
                "重复投递的事件不要重复计算。",
            ),
        ),
        "each": Way(
            "Count each line of the log as an event of its own.",
            "iterated over raw lines",
            says=("Every delivery counts.", "Do not deduplicate the events."),
        ),
    },
    "unresolved": {
        "until_cutoff": Way(
            "Count an incident that is still open until the cut-off.",
            "end = resolved_at or CUTOFF",
            says=(
                "Open incidents last until the end of the report.",
                "An incident without a resolution runs to the cut-off time.",
                "Include incidents that are not resolved yet.",
                "Do not leave out incidents that are still open.",
                "未解决的故障算到截止时间。",
            ),
        ),
        "leave_out": Way(
            "Leave out incidents that are not resolved yet.",
            "skipped rows without resolved_at",
            says=(
                "Only resolved incidents count.",
                "Exclude open incidents.",
                "Do not count incidents that are still open.",
                "只统计已经解决的故障。",
                "不要计入未解决的故障。",
            ),
        ),
    },
    "severity": {
        "mapped": Way(
            "Map the severity names of all tools to one scale.",
            "sev = {P1, SEV1, critical -> 1, ...}",
            says=(
                "P1, sev1 and critical are the same severity.",
                "Translate the severities to levels before grouping.",
                "Treat the different severity vocabularies as one.",
                "Do not group by the severity text.",
                "严重级别要先统一映射。",
            ),
        ),
        "literal": Way(
            "Group by the severity text as it stands in the log.",
            "groupby(severity)",
            says=("Take the severity name as it is.", "Do not translate severities."),
        ),
    },
    "services": {
        "normalised": Way(
            "Bring service names to one spelling before grouping.",
            "name.lower().replace('_', '-').removesuffix('-svc')",
            says=(
                "Treat checkout-svc, Checkout and checkout_svc as one service.",
                "Service names differ in case and suffix, unify them.",
                "Normalise the service before you add up.",
                "Do not count spellings of a service as several services.",
                "服务名称要先统一写法。",
                "不要把同一服务的不同写法分开统计。",
            ),
        ),
        "literal": Way(
            "Group by the service name exactly as logged.",
            "groupby(service)",
            says=("Use the service names from the log unchanged.", "Do not rename services."),
        ),
    },
    "maintenance": {
        "leave_out": Way(
            "Leave out incidents that begin in a planned maintenance window.",
            "skipped opened_at within maintenance.json",
            says=(
                "Planned maintenance is no outage.",
                "Exclude what falls into a maintenance window.",
                "Filter out maintenance before counting.",
                "Do not count planned maintenance.",
                "计划维护期间的故障不算。",
            ),
        ),
        "count": Way(
            "Count incidents in maintenance windows like any other.",
            "kept all incidents whatever the window",
            says=(
                "Maintenance belongs to the total here.",
                "Include incidents during maintenance.",
                "Do not filter out maintenance.",
                "维护期间的故障也要计入。",
            ),
        ),
    },
    "damaged": {
        "skip": Way(
            "Skip a damaged line and read on.",
            "try json.loads except: continue",
            says=(
                "Ignore broken lines, the rest of the log is fine.",
                "Continue after a line that is not JSON.",
                "Damaged lines must not end the parsing.",
                "Do not stop reading at a broken line.",
                "跳过损坏的行，继续读取。",
                "遇到坏行不要停止。",
            ),
        ),
        "stop": Way(
            "Stop reading the log at the first damaged line.",
            "except ValueError: break",
            says=("Everything after a broken line is void.", "Do not read past a damaged line."),
        ),
    },
    "unit": {
        "minutes": Way(
            "Give durations in minutes.",
            "seconds // 60",
            says=(
                "Durations are whole minutes.",
                "Divide the seconds by 60.",
                "Do not report seconds.",
                "时长以分钟为单位。",
            ),
        ),
        "seconds": Way(
            "Give durations in seconds.",
            "int(total_seconds())",
            says=(
                "Durations are reported as seconds.",
                "Keep the duration in seconds.",
                "Do not convert to minutes.",
                "时长以秒为单位。",
            ),
        ),
    },
    "reopened": {
        "last": Way(
            "An incident that was reopened ends with its last resolution.",
            "end = max(resolved_at)",
            says=(
                "Use the final resolution of a reopened incident.",
                "Reopening means that the earlier resolution is void.",
                "Do not stop the clock at the first resolution.",
                "以最后一次解决的时间为准。",
            ),
        ),
        "first": Way(
            "An incident ends with its first resolution.",
            "end = min(resolved_at)",
            says=("The first resolution closes an incident.", "Do not wait for later resolutions."),
        ),
    },
    "order": {
        "longest_first": Way(
            "Sort from the longest duration to the shortest.",
            "sorted(..., reverse=True)",
            says=(
                "The longest outage comes first.",
                "Order by duration, descending.",
                "Do not leave the rows in log order.",
                "按时长从长到短排序。",
            ),
        ),
        "as_found": Way(
            "Leave the rows in the order of the log.",
            "kept insertion order",
            says=("Keep the order of appearance.", "Do not sort the rows."),
        ),
    },
}
FIELDS = {
    "clock": ("UTC", "utc", "timezone", "offset", "时区"),
    "delivery": ("event_id",),
    "maintenance": ("maintenance.json",),
}

_LOG = "The log is `/root/events.jsonl`, one event a line (`event_id`, `incident`, `type`, `at`,\n"
_LOG += "`service`, `severity`, `region`); it was cut off at 2024-06-01T00:00:00+00:00."
_WHOLE = "Minutes are whole ones, rounded down for each incident. "
_FINAL = "A reopened incident ends with its last resolution. "
_ALL = "Planned windows (`/root/maintenance.json`) make no difference here. "
_WRITE = "Write only that file."
TASKS = {
    "outage-minutes": Task(
        f"""Add up the outages per service. {_LOG}

Save `/root/outages.json`:

```json
{{"outages": [{{"service": "", "incidents": 0, "length": 0}}], "worst": "", "length_total": 0}}
```

- `service` in lower case without suffix; an outage lasts from `opened` to its resolution, or is
  still going on. `length` is in minutes; the longest comes first; `worst` is the first one's name.
  {_WHOLE}{_FINAL}
- What happened during the windows of `/root/maintenance.json` was planned and is no outage.
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "services": "normalised",
         "maintenance": "leave_out", "unresolved": "until_cutoff", "unit": "minutes",
         "order": "longest_first"},
        output="outages.json",
    ),
    "severity-table": Task(
        f"""Write `/root/severity.csv` with the columns `level,resolved,mean_minutes`: a row per
severity level (1 is the worst), how many incidents of it were resolved, and their mean duration in
whole minutes (rounded down). Levels in ascending order. {_LOG}
{_WHOLE}{_FINAL}{_ALL}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "severity": "mapped",
         "unresolved": "leave_out", "unit": "minutes", "schema": "as_asked"},
        output="severity.csv",
    ),
    "oncall-brief": Task(
        f"""Summarise the on-call week in `/root/oncall.md`, a line per item as `name: value`:

```
acknowledged_count: 0
slowest_ack_minutes: 0
critical_count: 0
first_critical: INC-0
```

Minutes between `opened` and `acknowledged`; critical is level 1; the first one by time. {_LOG}
{_ALL}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "severity": "mapped",
         "unit": "minutes", "schema": "as_asked"},
        output="oncall.md",
    ),
    "region-load": Task(
        f"""How much work did each region have? Everything counts here, planned windows of
`/root/maintenance.json` too. {_LOG}

Save `/root/load.json`:

```json
{{"regions": [{{"region": "", "tickets": 0, "busy_seconds": 0}}], "busy_total": 0}}
```

Resolved incidents only, durations in seconds; the busiest region first. {_FINAL}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "maintenance": "count",
         "unresolved": "leave_out", "unit": "seconds", "order": "longest_first",
         "schema": "as_asked"},
        output="load.json",
    ),
    "uptime-sheet": Task(
        f"""Write `/root/uptime.csv` with the columns `zone,down_minutes,incident_count` for the
regions in alphabetical order. Downtime runs from `opened` to the resolution that held, in minutes;
an incident without one is still down. Planned windows (`/root/maintenance.json`) are no downtime.
{_LOG} {_WHOLE}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "maintenance": "leave_out",
         "unresolved": "until_cutoff", "reopened": "last", "unit": "minutes",
         "schema": "as_asked"},
        output="uptime.csv",
    ),
    "repeat-offenders": Task(
        f"""Which services keep coming back? {_LOG}

Save `/root/offenders.json`:

```json
{{"offenders": [{{"name": "", "times": 0, "lost_minutes": 0}}], "reopened_incidents": 0}}
```

- All services with two or more resolved incidents, the one that lost most time first.
- An incident that was reopened ends when it was resolved for good; `reopened_incidents` counts
  them over all services. Times carry their UTC offsets. {_WHOLE}{_ALL}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "services": "normalised", "reopened": "last",
         "unresolved": "leave_out", "unit": "minutes", "order": "longest_first",
         "schema": "as_asked"},
        output="offenders.json",
    ),
    "weekly-brief": Task(
        f"""Write the weekly brief `/root/brief.md`, a line per item as `name: value`:

```
incidents_seen: 0
services_hit: name, name
minutes_lost: 0
level_one: 0
```

`incidents_seen` counts all but planned ones (`/root/maintenance.json`), `services_hit` lists them
in alphabetical order, `minutes_lost` adds up what is resolved or still going on, `level_one` is the
number of incidents of the worst level. {_LOG} {_WHOLE}{_FINAL}
"""
        + _WRITE,
        {"damaged": "skip", "delivery": "once", "clock": "utc", "services": "normalised",
         "severity": "mapped", "maintenance": "leave_out", "unresolved": "until_cutoff",
         "unit": "minutes", "schema": "as_asked"},
        output="brief.md",
    ),
}  # fmt: skip

_CUTOFF = datetime(2024, 6, 1, tzinfo=UTC)
_SERVICES = ("checkout", "search", "billing", "mail", "ledger", "gateway")
_SPELLINGS = ("{0}", "{0}-svc", "{0}_svc", "{1}", "{1}-SVC")
_SEVERITIES = {
    1: ("P1", "SEV1", "critical"),
    2: ("P2", "SEV2", "major"),
    3: ("P3", "SEV3", "minor"),
}
_REGIONS = ("ap-south", "eu-west", "us-east")
_OFFSETS = (0, 2, -5, 9)

# The data.


def generate(random: Random) -> dict[str, dict[str, str]]:
    """A log of its own for every task, and the planned windows."""
    files = {}
    for task in TASKS:
        windows = _windows(random)
        files[task] = {
            "events.jsonl": _log(random, windows),
            "maintenance.json": json.dumps(windows, indent=1) + "\n",
        }
    return files


def _windows(random: Random) -> list[dict[str, str]]:
    windows = []
    for day in (6, 13, 20):
        start = datetime(2024, 5, day, random.randrange(4), tzinfo=UTC)
        windows.append({"from": start.isoformat(), "to": (start + timedelta(hours=3)).isoformat()})
    return windows


def _log(random: Random, windows: list[dict[str, str]]) -> str:
    lines: list[tuple[datetime, str]] = []
    serial = random.randrange(1000, 2000)

    def add(at: datetime, incident: str, kind: str, about: dict[str, str]) -> None:
        nonlocal serial
        serial += 1
        local = at.astimezone(timezone(timedelta(hours=random.choice(_OFFSETS))))
        event = {"event_id": f"e{serial}", "incident": incident, "type": kind,
                 "at": local.isoformat(), **about}  # fmt: skip
        copies = 2 if random.random() < 0.25 else 1
        lines.extend([(at, json.dumps(event))] * copies)

    for number in range(42):
        incident = f"INC-{number + 100}"
        at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(60, 43_000))
        if number % 7 == 0:
            window = windows[number % len(windows)]
            at = datetime.fromisoformat(window["from"]) + timedelta(minutes=random.randrange(170))
        name = random.choice(_SERVICES)
        about = {
            "service": random.choice(_SPELLINGS).format(name, name.capitalize()),
            "severity": random.choice(_SEVERITIES[random.choice((1, 2, 2, 3))]),
            "region": random.choice(_REGIONS),
        }
        add(at, incident, "opened", about)
        add(at + timedelta(minutes=random.randrange(1, 90)), incident, "acknowledged", about)
        if number % 6 == 5:
            continue
        end = at + timedelta(minutes=random.randrange(91, 900), seconds=random.randrange(60))
        add(end, incident, "resolved", about)
        if number % 5 == 0:
            add(end + timedelta(minutes=random.randrange(60, 700)), incident, "resolved", about)
    lines.sort(key=lambda line: line[0])
    texts = [text for _, text in lines]
    for place in (len(texts) // 3, 2 * len(texts) // 3):
        texts.insert(place, texts[place][: random.randrange(20, 60)])
    return "\n".join(texts) + "\n"


# The reference solution, event by event.


class _Incident:
    def __init__(self, event: dict[str, str], at: datetime) -> None:
        self.name = event["incident"]
        self.service, self.severity, self.region = (
            event[key] for key in ("service", "severity", "region")
        )
        self.opened = at
        self.acknowledged: datetime | None = None
        self.resolutions: list[datetime] = []


def _at(event: dict[str, str], ways: Ways) -> datetime:
    if ways.get("clock", "utc") == "as_written":
        return datetime.fromisoformat(event["at"][:19]).replace(tzinfo=UTC)
    return datetime.fromisoformat(event["at"]).astimezone(UTC)


def _events(files: Files, ways: Ways) -> list[dict[str, str]]:
    events, seen = [], set()
    for line in files["events.jsonl"].splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            if ways.get("damaged", "skip") == "stop":
                break
            continue
        if ways.get("delivery", "once") == "each" or event["event_id"] not in seen:
            events.append(event)
        seen.add(event["event_id"])
    return events


def _incidents(files: Files, ways: Ways) -> list[_Incident]:
    """In the order in which they were opened in the log; each opening is one."""
    found: list[_Incident] = []
    for event in _events(files, ways):
        at = _at(event, ways)
        if event["type"] == "opened":
            found.append(_Incident(event, at))
        for incident in found:
            if incident.name == event["incident"]:
                if event["type"] == "acknowledged":
                    incident.acknowledged = incident.acknowledged or at
                if event["type"] == "resolved":
                    incident.resolutions.append(at)
    windows = [
        (datetime.fromisoformat(window["from"]), datetime.fromisoformat(window["to"]))
        for window in json.loads(files["maintenance.json"])
    ]
    if ways.get("maintenance") == "leave_out":
        found = [one for one in found if not any(a <= one.opened < b for a, b in windows)]
    return found


def _end(incident: _Incident, ways: Ways) -> datetime | None:
    if incident.resolutions:
        last = ways.get("reopened", "last") == "last"
        return max(incident.resolutions) if last else min(incident.resolutions)
    return _CUTOFF if ways.get("unresolved") == "until_cutoff" else None


def _length(incident: _Incident, ways: Ways) -> int:
    end = _end(incident, ways)
    seconds = int((end - incident.opened).total_seconds()) if end else 0
    return seconds // 60 if ways.get("unit", "minutes") == "minutes" else seconds


def _service(incident: _Incident, ways: Ways) -> str:
    if ways.get("services", "normalised") == "literal":
        return incident.service
    return incident.service.lower().replace("_", "-").removesuffix("-svc")


def _level(incident: _Incident, ways: Ways) -> Any:
    if ways.get("severity", "mapped") == "literal":
        return incident.severity
    return next(level for level, names in _SEVERITIES.items() if incident.severity in names)


def _grouped(incidents: list[_Incident], key: Any, ways: Ways) -> list[tuple[Any, int, int]]:
    """`(key, incidents, length)` per group, of the incidents that have an end."""
    groups: dict[Any, list[int]] = {}
    for incident in incidents:
        if _end(incident, ways) is not None:
            groups.setdefault(key(incident, ways), []).append(_length(incident, ways))
    rows = [(name, len(lengths), sum(lengths)) for name, lengths in groups.items()]
    if ways.get("order") == "longest_first":
        rows.sort(key=lambda row: (-row[2], row[0]))
    return rows


def _region(incident: _Incident, ways: Ways) -> str:
    return incident.region


def _outages(files: Files, ways: Ways) -> Any:
    rows = _grouped(_incidents(files, ways), _service, ways)
    return {
        "outages": [
            {"service": name, "incidents": number, "length": length}
            for name, number, length in rows
        ],
        "worst": rows[0][0] if rows else "",
        "length_total": sum(length for *_, length in rows),
    }


def _severities(files: Files, ways: Ways) -> Any:
    rows = _grouped(_incidents(files, ways), _level, ways)
    return [
        {"level": level, "resolved": number, "mean_minutes": length // number}
        for level, number, length in sorted(rows, key=lambda row: str(row[0]))
    ]


def _oncall(files: Files, ways: Ways) -> Any:
    incidents = _incidents(files, ways)
    waits = [
        int((one.acknowledged - one.opened).total_seconds())
        for one in incidents
        if one.acknowledged
    ]
    critical = [one for one in incidents if _level(one, ways) == 1]
    scale = 60 if ways["unit"] == "minutes" else 1
    return {
        "acknowledged_count": len(waits),
        "slowest_ack_minutes": max(waits, default=0) // scale,
        "critical_count": len(critical),
        "first_critical": min(critical, key=lambda one: one.opened).name if critical else "none",
    }


def _load(files: Files, ways: Ways) -> Any:
    rows = _grouped(_incidents(files, ways), _region, ways)
    return {
        "regions": [
            {"region": name, "tickets": number, "busy_seconds": length}
            for name, number, length in rows
        ],
        "busy_total": sum(length for *_, length in rows),
    }


def _uptime(files: Files, ways: Ways) -> Any:
    rows = _grouped(_incidents(files, ways), _region, ways)
    return [
        {"zone": name, "down_minutes": length, "incident_count": number}
        for name, number, length in sorted(rows)
    ]


def _offenders(files: Files, ways: Ways) -> Any:
    incidents = _incidents(files, ways)
    rows = _grouped(incidents, _service, ways)
    return {
        "offenders": [
            {"name": name, "times": number, "lost_minutes": length}
            for name, number, length in rows
            if number > 1
        ],
        "reopened_incidents": sum(len(one.resolutions) > 1 for one in incidents),
    }


def _brief(files: Files, ways: Ways) -> Any:
    incidents = _incidents(files, ways)
    return {
        "incidents_seen": len(incidents),
        "services_hit": sorted({_service(one, ways) for one in incidents}),
        "minutes_lost": sum(_length(one, ways) for one in incidents),
        "level_one": sum(_level(one, ways) == 1 for one in incidents),
    }


_SOLVERS = {
    "outage-minutes": _outages,
    "severity-table": _severities,
    "oncall-brief": _oncall,
    "region-load": _load,
    "uptime-sheet": _uptime,
    "repeat-offenders": _offenders,
    "weekly-brief": _brief,
}


def solve(task: str, files: Files, ways: Ways) -> Any:
    """The answer of a task by the ways given."""
    return _SOLVERS[task](files, ways)


# The second method: relational, with nothing of the first but the files.


def recompute(task: str, files: Files) -> Any:
    """The right answer, by joins over whole tables."""
    return _SECOND[task](_table(files))


def _table(files: Files) -> pl.DataFrame:
    """One row per incident: service, level, region, UTC times, and whether it was planned."""
    lines = pl.DataFrame({"line": files["events.jsonl"].splitlines()})
    shape = pl.Struct(dict.fromkeys(
        ("event_id", "incident", "type", "at", "service", "severity", "region"), pl.String
    ))  # fmt: skip
    events = (
        lines.filter(pl.col("line").str.ends_with("}"))
        .select(pl.col("line").str.json_decode(shape).alias("event"))
        .unnest("event")
        .unique("event_id", keep="first", maintain_order=True)
        .with_columns(
            pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M:%S%z", time_zone="UTC", time_unit="us")
        )
    )
    levels = {name: level for level, names in _SEVERITIES.items() for name in names}
    opened = events.filter(pl.col("type") == "opened").select(
        "incident",
        "region",
        opened="at",
        service=pl.col("service").str.to_lowercase().str.replace(r"[-_]svc$", ""),
        level=pl.col("severity").replace_strict(levels, return_dtype=pl.Int64),
    )
    others = events.group_by("incident").agg(
        acknowledged=pl.col("at").filter(pl.col("type") == "acknowledged").min(),
        resolved=pl.col("at").filter(pl.col("type") == "resolved").max(),
        resolutions=(pl.col("type") == "resolved").sum(),
    )
    windows = [
        (datetime.fromisoformat(window["from"]), datetime.fromisoformat(window["to"]))
        for window in json.loads(files["maintenance.json"])
    ]
    planned = pl.any_horizontal(
        (pl.col("opened") >= start) & (pl.col("opened") < end) for start, end in windows
    )
    seconds = (pl.coalesce("resolved", pl.lit(_CUTOFF)) - pl.col("opened")).dt.total_seconds()
    return (
        opened.join(others, on="incident", how="left")
        .with_columns(planned=planned, seconds=seconds)
        .with_columns(minutes=pl.col("seconds") // 60)
        .sort("opened", "incident")
    )


def _second_outages(table: pl.DataFrame) -> Any:
    rows = (
        table.filter(~pl.col("planned"))
        .group_by("service")
        .agg(incidents=pl.len(), length=pl.col("minutes").sum())
        .sort("length", "service", descending=[True, False])
    )
    return {
        "outages": rows.to_dicts(),
        "worst": rows["service"][0],
        "length_total": rows["length"].sum(),
    }


def _second_severities(table: pl.DataFrame) -> Any:
    resolved = table.filter(pl.col("resolved").is_not_null())
    return (
        resolved.group_by("level")
        .agg(resolved=pl.len(), mean_minutes=pl.col("minutes").sum() // pl.len())
        .sort("level")
        .to_dicts()
    )


def _second_oncall(table: pl.DataFrame) -> Any:
    waits = table.select(wait=(pl.col("acknowledged") - pl.col("opened")).dt.total_seconds())
    critical = table.filter(pl.col("level") == 1)
    return {
        "acknowledged_count": waits["wait"].drop_nulls().len(),
        "slowest_ack_minutes": waits["wait"].max() // 60,
        "critical_count": critical.height,
        "first_critical": critical["incident"][0],
    }


def _second_load(table: pl.DataFrame) -> Any:
    rows = (
        table.filter(pl.col("resolved").is_not_null())
        .group_by("region")
        .agg(tickets=pl.len(), busy_seconds=pl.col("seconds").sum())
        .sort("busy_seconds", "region", descending=[True, False])
    )
    return {"regions": rows.to_dicts(), "busy_total": rows["busy_seconds"].sum()}


def _second_uptime(table: pl.DataFrame) -> Any:
    return (
        table.filter(~pl.col("planned"))
        .group_by(zone="region")
        .agg(down_minutes=pl.col("minutes").sum(), incident_count=pl.len())
        .sort("zone")
        .to_dicts()
    )


def _second_offenders(table: pl.DataFrame) -> Any:
    rows = (
        table.filter(pl.col("resolved").is_not_null())
        .group_by(name="service")
        .agg(times=pl.len(), lost_minutes=pl.col("minutes").sum())
        .filter(pl.col("times") > 1)
        .sort("lost_minutes", "name", descending=[True, False])
    )
    return {
        "offenders": rows.to_dicts(),
        "reopened_incidents": int((table["resolutions"] > 1).sum()),
    }


def _second_brief(table: pl.DataFrame) -> Any:
    seen = table.filter(~pl.col("planned"))
    return {
        "incidents_seen": seen.height,
        "services_hit": seen["service"].unique().sort().to_list(),
        "minutes_lost": seen["minutes"].sum(),
        "level_one": int((seen["level"] == 1).sum()),
    }


_SECOND = {
    "outage-minutes": _second_outages,
    "severity-table": _second_severities,
    "oncall-brief": _second_oncall,
    "region-load": _second_load,
    "uptime-sheet": _second_uptime,
    "repeat-offenders": _second_offenders,
    "weekly-brief": _second_brief,
}

FAMILY = Family(
    title="Incident logs of an operations team",
    steps=STEPS,
    fields=FIELDS,
    tasks=TASKS,
    generate=generate,
    solve=solve,
    recompute=recompute,
    seed=29,
)
