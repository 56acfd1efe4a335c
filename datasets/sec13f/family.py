"""Eight tasks on quarterly holdings reports, in the layout of the SEC's 13F data sets.

The data are invented; their quirks are not: amendments that restate a filing, option rows told only
by PUTCALL, principal amounts among shares, filings of older quarters in the same file, values in
thousands before 2023, and names that never look the same twice.
"""

from collections import defaultdict
from random import Random
from typing import Any

import polars as pl

from harness.kit import Family, Files, Task, Way, Ways

_COVER = (
    "ACCESSION_NUMBER", "REPORTCALENDARORQUARTER", "ISAMENDMENT", "AMENDMENTNO", "AMENDMENTTYPE",
    "FILINGMANAGER_NAME", "FILINGMANAGER_CITY", "REPORTTYPE",
)  # fmt: skip
_INFO = (
    "ACCESSION_NUMBER", "INFOTABLE_SK", "NAMEOFISSUER", "TITLEOFCLASS", "CUSIP", "FIGI", "VALUE",
    "SSHPRNAMT", "SSHPRNAMTTYPE", "PUTCALL", "INVESTMENTDISCRETION", "OTHERMANAGER",
    "VOTING_AUTH_SOLE", "VOTING_AUTH_SHARED", "VOTING_AUTH_NONE",
)  # fmt: skip
_QUARTERS = {
    "2022-q2": "30-JUN-2022",
    "2022-q3": "30-SEP-2022",
    "2025-q1": "31-MAR-2025",
    "2025-q2": "30-JUN-2025",
    "2025-q3": "30-SEP-2025",
}

STEPS = {
    "period": {
        "asked": Way(
            "Use only the filings whose report date is the quarter that was asked for.",
            "kept cover rows where REPORTCALENDARORQUARTER equals the quarter end",
            says=(
                "Take the filings of the requested quarter and nothing else.",
                "Filter the cover pages by the report date of the quarter.",
                "The report period has to equal the quarter end that the task names.",
                "Only filings for this quarter count, the folder holds other quarters as well.",
                "只用所要求季度的申报文件。",
                "先按报告期筛选封面数据。",
                "Do not use filings of another quarter.",
                "Never mix older periods into the numbers.",
                "Filings from previous quarters must not be counted.",
                "不要把其他季度的申报算进来。",
            ),
        ),
        "any": Way(
            "Use all filings in the folder, of older quarters too.",
            "took every cover row of the file",
            says=(
                "Include every filing that lies in the folder, whatever its date.",
                "Older filings count as well.",
                "所有季度的申报都要用。",
                "Do not filter by report date.",
                "Never drop filings because of their period.",
            ),
        ),
    },
    "amendments": {
        "latest": Way(
            "Where a manager restated a filing, use the restatement in place of the original.",
            "replaced each original accession by its highest RESTATEMENT number",
            says=(
                "The amended filing replaces the first one.",
                "Take the restatement of a manager where there is one.",
                "Use the newest amendment and drop the original.",
                "An amendment with RESTATEMENT overrides the earlier filing.",
                "如果有修订申报，用修订后的数据代替原申报。",
                "以最新的重述为准。",
                "Do not use the original filing when a restatement exists.",
                "Never ignore the amendments.",
                "Do not add the amendment on top of the original.",
                "不要忽略修订申报。",
                "不要把原申报和修订申报重复相加。",
            ),
        ),
        "original": Way(
            "Use the original filing of each manager and pass over its amendments.",
            "kept accessions with an empty AMENDMENTNO",
            says=(
                "Keep the first filing of each manager.",
                "Work from the original filing, amendments aside.",
                "用原始申报，不用修订。",
                "Do not use amended filings.",
                "Never replace the original filing.",
            ),
        ),
        "both": Way(
            "Add up the original filing and its amendments.",
            "unioned original and amended accessions",
            says=(
                "Sum the amendment and the original together.",
                "Merge the amended rows into the original filing.",
                "把原申报和修订申报加在一起。",
                "Do not throw away the original when there is an amendment.",
            ),
        ),
    },
    "records": {
        "every": Way(
            "Read all holding records of a filing.",
            "joined the full INFOTABLE to the accession",
            says=(
                "Parse all rows of the information table.",
                "A security may appear in several rows of one filing: add all of them.",
                "Sum over every row of the same security.",
                "Each holding can have many records, read them all.",
                "同一证券的每一行都要读取并相加。",
                "要解析所有的持仓记录。",
                "Do not stop at the first row of a security.",
                "Never keep just one record per CUSIP.",
                "不要只取第一条记录。",
            ),
        ),
        "first": Way(
            "Read only the first holding record of a filing for each security.",
            "kept the first INFOTABLE row per accession and CUSIP",
            says=(
                "Keep one row per security, the first.",
                "The first record of a security is sufficient.",
                "每个证券只取第一行。",
                "Do not add up the rows of the same security.",
            ),
        ),
    },
    "options": {
        "leave_out": Way(
            "Leave out option positions, the rows that are marked as puts or calls.",
            "filtered rows with a value in PUTCALL",
            says=(
                "Exclude puts and calls.",
                "Option rows do not belong to the equity value.",
                "Drop rows with a PUTCALL entry before adding up equity.",
                "Filter out the derivatives first.",
                "Equity excludes option positions.",
                "剔除看跌和看涨期权。",
                "统计股票时排除期权行。",
                "Do not count options as equity.",
                "Never add put and call rows to the stock positions.",
                "Options must not be included.",
                "不要把期权算进股票。",
            ),
        ),
        "count": Way(
            "Count option positions, puts and calls, together with the other rows.",
            "summed rows whatever their PUTCALL",
            says=(
                "Include puts and calls in the total.",
                "Options belong to the gross exposure.",
                "Keep the option rows in.",
                "Count derivatives at their reported value.",
                "期权也要计入总敞口。",
                "保留期权行。",
                "Do not leave out the options.",
                "Never drop put and call rows from gross exposure.",
                "不要剔除期权。",
            ),
        ),
    },
    "units": {
        "thousands": Way(
            "Turn the values from thousands into dollars, times 1000.",
            "VALUE = VALUE * 1000",
            says=(
                "Multiply the VALUE column by 1000.",
                "The amounts are in thousands of dollars, convert them.",
                "Values before 2023 are reported in thousands.",
                "Scale the value by a thousand to get dollars.",
                "金额单位是千美元，要乘以1000。",
                "换算成美元。",
                "Do not report the amounts in thousands.",
                "Never take the value as plain dollars for the old filings.",
                "不要直接用千美元的数字。",
            ),
        ),
        "as_filed": Way(
            "Take the values as dollars, just as they are filed.",
            "VALUE used unchanged",
            says=(
                "The values are dollars already.",
                "Leave the amounts as they are reported.",
                "Since 2023 the value column is in full dollars.",
                "金额已经是美元，直接使用。",
                "Do not multiply the values by 1000.",
                "Never scale the amounts of the new filings.",
                "不要再乘以1000。",
            ),
        ),
    },
    "names": {
        "normalised": Way(
            "Compare names without regard to case, punctuation and legal suffixes.",
            "lower(), strip punctuation, drop LLC / INC / CORP before the lookup",
            says=(
                "Normalise the names before you match them.",
                "Ignore case, punctuation and company suffixes in names.",
                "Match the manager name loosely: hyphens, ampersands and LLC differ.",
                "Treat & and the word and alike in issuer names.",
                "匹配名称前先统一大小写和标点。",
                "名称要做标准化再比较。",
                "Do not match names literally.",
                "Never rely on the exact spelling of a manager or issuer.",
                "不要用精确匹配名称。",
            ),
        ),
        "exact": Way(
            "Look for a name that begins exactly like the query.",
            "name.startswith(query)",
            says=(
                "Match the name exactly as it is written.",
                "Compare the query with the beginning of the name, letter by letter.",
                "名称必须完全一致。",
                "Do not normalise the names.",
            ),
        ),
    },
    "principal": {
        "shares_only": Way(
            "Keep share amounts and principal amounts of bonds apart when adding up shares.",
            "filtered SSHPRNAMTTYPE == 'SH'",
            says=(
                "Count only rows whose SSHPRNAMTTYPE is SH as shares.",
                "Bond principal is not a number of shares.",
                "Leave principal amounts out of the share count.",
                "Shares and principal are different things in that column.",
                "只统计股数，排除本金金额。",
                "PRN 是债券本金，不是股数。",
                "Do not add principal amounts to shares.",
                "Never count PRN rows as shares.",
                "不要把本金算作股数。",
            ),
        ),
        "add_all": Way(
            "Add up the amount column of all rows, bonds included.",
            "sum(SSHPRNAMT) over all rows",
            says=(
                "Sum the whole amount column for the shares.",
                "Principal rows count towards the shares too.",
                "本金也算进股数。",
                "Do not separate shares from principal.",
            ),
        ),
    },
    "absent": {
        "zero": Way(
            "Treat a security that one of the two quarters does not hold as zero there.",
            "outer join of both quarters, fillna(0)",
            says=(
                "A position that is missing in one quarter is worth zero there.",
                "Fill positions without a counterpart with 0.",
                "Keep securities that appear in one of the two quarters only.",
                "New and closed positions belong to the comparison.",
                "缺失的一方按零计算。",
                "只在一个季度出现的证券也要比较。",
                "Do not drop positions that exist in one quarter only.",
                "Never restrict the comparison to shared securities.",
                "不要丢掉只出现在一个季度的持仓。",
            ),
        ),
        "common": Way(
            "Compare only the securities that both quarters hold.",
            "inner join of both quarters on CUSIP",
            says=(
                "Compare securities held in both quarters only.",
                "Leave out positions without a counterpart.",
                "只比较两个季度都有的证券。",
                "Do not count new or closed positions.",
            ),
        ),
    },
    "order": {
        "by_value": Way(
            "Sort the result from the largest value to the smallest.",
            "sort_values(value, descending)",
            says=(
                "Rank the rows by value, highest first.",
                "The largest position comes first.",
                "Sort in descending order of value.",
                "Order the list from big to small.",
                "按金额降序排列。",
                "从大到小排序。",
                "Do not leave the list unsorted.",
                "Never keep the order of the input file.",
                "不要按文件里的顺序输出。",
            ),
        ),
        "as_found": Way(
            "Leave the result in the order in which the rows were found.",
            "wrote groups in input order",
            says=(
                "Keep the rows in the order of the file.",
                "The order of the input is fine.",
                "保持原来的顺序。",
                "Do not sort the result by value.",
            ),
        ),
    },
    "repeats": {
        "once": Way(
            "Handle alerts that ask for the same thing only once.",
            "drop_duplicates on type and normalised query",
            says=(
                "Remove duplicate alerts.",
                "Repeated alerts are answered one time.",
                "Deduplicate the feed before you answer.",
                "The same request twice is one alert.",
                "先对提醒去重。",
                "重复的提醒只处理一次。",
                "Do not answer the same alert twice.",
                "Never repeat an alert in the result.",
                "不要重复处理同一个提醒。",
            ),
        ),
        "each": Way(
            "Answer each alert of the feed, repeated ones too.",
            "iterated over the raw alert list",
            says=(
                "Answer every alert, duplicates included.",
                "Each entry of the feed gets its own answer.",
                "每条提醒都要处理。",
                "Do not drop repeated alerts.",
            ),
        ),
    },
}
#: Columns that a step works on: a sentence that names one speaks of that step.
FIELDS = {
    "period": (
        "REPORTCALENDARORQUARTER",
        "PERIODOFREPORT",
    ),
    "amendments": (
        "ISAMENDMENT",
        "AMENDMENTNO",
        "AMENDMENTTYPE",
        "RESTATEMENT",
    ),
    "options": ("PUTCALL",),
    "principal": (
        "SSHPRNAMTTYPE",
        "SSHPRNAMT",
        "PRN",
    ),
    "names": (
        "FILINGMANAGER_NAME",
        "NAMEOFISSUER",
    ),
}

_WRITE = "Write only that file."
TASKS = {
    "fund-snapshot": Task(
        """Prepare `/root/answers.json`, a snapshot of one institutional manager from the 13F filing
data in `/root/2025-q3` (`COVERPAGE.tsv`, `INFOTABLE.tsv`). The manager is `granite harbor`, the
quarter ended on 30 September 2025.

```json
{"manager": "", "accession": "", "total_value": 0, "holding_rows": 0, "equity_value": 0,
 "largest_cusips": ["", "", ""]}
```

- `manager` and `accession` as they stand on the cover page of the filing that counts.
- `total_value` in dollars over all rows of the filing, `holding_rows` their number.
- `equity_value` in dollars over its equity rows, `largest_cusips` the three equity CUSIPs with the
  most value, the largest first.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "amendments": "latest", "records": "every",
         "options": "leave_out", "units": "as_filed", "order": "by_value"},
    ),
    "class-breakdown": Task(
        """From the filing data in `/root/2022-q3`, break one filing down by security class and save
it as `/root/answers.json`. The filing is the one of `blue mesa` for the quarter that ended on 30
September 2022.

```json
{"fund": "", "filing": "", "classes": [{"label": "", "rows": 0, "usd": 0}], "usd_total": 0}
```

- `label` is TITLEOFCLASS in lower case; a put or a call counts in the class of its underlying.
- `usd` is the gross exposure in dollars, `usd_total` their sum.
- The classes with the most dollars come first.
"""
        + _WRITE,
        {"names": "normalised", "amendments": "latest", "records": "every", "options": "count",
         "units": "thousands", "order": "by_value", "schema": "as_asked"},
    ),
    "quarter-shift": Task(
        """How did the equity book of `northwind ridge` move from `/root/2025-q2` to
`/root/2025-q3`? Answer in `/root/answers.json`.

```json
{"query": "", "raised": ["", "", ""], "cut": ["", "", ""], "opened": ["", ""], "net_change": 0}
```

- All amounts in dollars, per CUSIP.
- `raised`: the three CUSIPs whose value rose most, the largest rise first; `cut`: the three whose
  value fell most, the largest fall first.
- `opened`: the two largest positions of the later quarter that the earlier one did not hold.
- `net_change`: the change of the whole equity book.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "amendments": "latest", "options": "leave_out",
         "units": "as_filed", "absent": "zero", "order": "by_value", "schema": "as_asked"},
    ),
    "issuer-rollup": Task(
        """Who owns `quill and anchor`? Roll its common stock up over all managers in
`/root/2025-q3` and write `/root/answers.json`.

```json
{"issuer": "", "cusip": "", "holders": [{"name": "", "market_value": 0, "shares": 0}],
 "holder_count": 0}
```

- `issuer` repeats the query, `cusip` is the one CUSIP it stands for.
- One row per manager, named as on its cover page, for the quarter that ended on 30 September 2025;
  the largest `market_value` (dollars) first. `shares` counts shares.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "amendments": "latest", "options": "leave_out",
         "principal": "shares_only", "order": "by_value", "schema": "as_asked"},
    ),
    "manager-issuer-grid": Task(
        """Build a grid of two managers against three issuers from `/root/2022-q3` and save it as
`/root/answers.json`: managers `granite harbor`, `alder street`; issuers `quill and anchor`,
`tidewater power`, `o'dell foods`; quarter end 30 September 2022.

```json
{"quarter": "", "grid": [{"manager_query": "", "cells": [{"issuer_query": "", "dollars": 0}]}],
 "grid_total": 0}
```

- `dollars`: what the manager's equity position in the issuer was worth, 0 where there is none.
- Keep the order of the queries; `quarter` is `2022-q3`.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "records": "every", "options": "leave_out",
         "units": "thousands", "schema": "as_asked"},
    ),
    "quarter-reconciliation": Task(
        """Reconcile two managers between `/root/2025-q2` and `/root/2025-q3`: `granite harbor` and
`blue mesa`. Save `/root/answers.json`.

```json
{"pairs": [{"manager_query": "", "before": 0, "after": 0, "unmatched": ["", ""]}], "checked": 0}
```

- `before` and `after`: the equity value in dollars in the earlier and in the later quarter.
- `unmatched`: the CUSIPs of equity positions that only one of the quarters holds, the most valuable
  first.
- `checked`: how many distinct CUSIPs were compared over both managers.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "amendments": "latest", "options": "leave_out",
         "absent": "zero", "order": "by_value", "schema": "as_asked"},
    ),
    "alert-pack": Task(
        """Work through the alert feed `/root/alerts.json` with the filing data in `/root/2025-q3`
(quarter end 30 September 2025) and save `/root/answers.json`. Alerts of another type than
`issuer_holders` and `fund_top` are not for you.

```json
{"issuer_alerts": [{"issuer_query": "", "top_managers": ["", ""]}],
 "fund_alerts": [{"fund_query": "", "top_cusip": ""}], "answered": 0}
```

- `top_managers`: the two managers with the most equity value in the issuer, the largest first.
- `top_cusip`: the manager's largest equity position. Keep the order of the feed.
- `answered`: the number of alerts in the two lists.
"""
        + _WRITE,
        {"repeats": "once", "names": "normalised", "amendments": "latest", "options": "leave_out",
         "order": "by_value", "schema": "as_asked"},
    ),
    "brief-refresh": Task(
        """Refresh the brief in `/root/brief.json` with the filing data in `/root/2022-q3` (quarter
end 30 September 2022) and save it as `/root/answers.json`. Keep the keys, the order of the sections
and items, and the notes as they are; fill in what is 0 or empty.

- Section `exposure`: `gross_usd` is everything a manager reports, derivatives at their reported
  value, in dollars; `lines` is the number of rows.
- Section `leaders`: `top_holder` is the manager with the most value in the issuer.
- `as_of` is the quarter end as `2022-09-30`.
"""
        + _WRITE,
        {"names": "normalised", "period": "asked", "amendments": "latest", "records": "every",
         "options": "count", "units": "thousands", "schema": "as_asked"},
    ),
}  # fmt: skip

_FOLDERS = {
    "fund-snapshot": ("2025-q3",),
    "class-breakdown": ("2022-q3",),
    "quarter-shift": ("2025-q2", "2025-q3"),
    "issuer-rollup": ("2025-q3",),
    "manager-issuer-grid": ("2022-q3",),
    "quarter-reconciliation": ("2025-q2", "2025-q3"),
    "alert-pack": ("2025-q3",),
    "brief-refresh": ("2022-q3",),
}
_BEFORE = {"2022-q3": "2022-q2", "2025-q2": "2025-q1", "2025-q3": "2025-q2"}

# The data.

#: The managers that the tasks ask for come first: they amend, hold options and file late.
_MANAGERS = (
    ("Granite-Harbor Partners, L.P.", "GRANITE-HARBOR PARTNERS LP"),
    ("BLUE-MESA CAPITAL MANAGEMENT LLC", "Blue-Mesa Capital Management, LLC"),
    ("Northwind-Ridge Advisors Inc.", "NORTHWIND-RIDGE ADVISORS INC"),
    ("Alder Street Group, LLC", "ALDER STREET GROUP LLC"),
    ("Kestrel & Vane Holdings LP", "Kestrel & Vane Holdings, L.P."),
    ("Corvid Point Capital LLC", "CORVID POINT CAPITAL LLC"),
    ("Saltmarsh Trust Co", "SALTMARSH TRUST CO"),
    ("Fen & Hollow Advisors, LLC", "FEN & HOLLOW ADVISORS LLC"),
    ("Tern Bay Asset Management", "TERN BAY ASSET MANAGEMENT"),
)
_ISSUERS = (
    ("QUILL & ANCHOR INC", "COM"),
    ("TIDEWATER PWR CO", "COM SHS"),
    ("O'DELL FOODS CORP", "CL A"),
    ("HALCYON BIO, INC.", "COM"),
    ("BRIAR & STONE PLC", "ORD SHS"),
    ("VESTA LOGISTICS CORP", "COM"),
    ("MERIDIAN CHIPS INC", "CL B"),
    ("LOWLAND RAIL CO", "COM"),
    ("PALISADE MEDIA INC", "CL A"),
    ("OXBOW WATER CORP", "COM"),
    ("JUNIPER CREDIT CO", "NOTE 2.5% 2029"),
    ("SABLE MINING LTD", "SHS"),
    ("CINDER ENERGY CORP", "COM"),
    ("LARKSPUR RETAIL INC", "COM"),
)
_ALIASES = {
    "quill and anchor": "QUILL & ANCHOR INC",
    "tidewater power": "TIDEWATER PWR CO",
    "o'dell foods": "O'DELL FOODS CORP",
    "halcyon bio": "HALCYON BIO, INC.",
    "briar and stone": "BRIAR & STONE PLC",
}


def generate(random: Random) -> dict[str, dict[str, str]]:
    """The files of every task. Each quarter of each task is drawn anew."""
    cusips = [f"{random.randrange(10**5, 10**6)}{random.choice('ABCDE')}10{number % 10}"
              for number in range(len(_ISSUERS))]  # fmt: skip
    files: dict[str, dict[str, str]] = {}
    for task, quarters in _FOLDERS.items():
        files[task] = {}
        for quarter in quarters:
            covers, rows = _filings(random, quarter, cusips)
            files[task][f"{quarter}/COVERPAGE.tsv"] = _tsv(_COVER, covers)
            files[task][f"{quarter}/INFOTABLE.tsv"] = _tsv(_INFO, rows)
    files["alert-pack"]["alerts.json"] = _ALERTS
    files["brief-refresh"]["brief.json"] = _BRIEF
    return files


def _filings(random: Random, quarter: str, cusips: list[str]) -> tuple[list[dict], list[dict]]:
    covers: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    year = quarter[2:4]
    for number, names in enumerate(_MANAGERS):
        name = random.choice(names)
        asked = number < 4
        plans = [(quarter, "", "")]
        if asked or random.random() < 0.3:
            plans.append((quarter, "1", "RESTATEMENT"))
        if asked or random.random() < 0.3:
            plans.insert(0, (_BEFORE[quarter], "", ""))
        for position, (period, amendment, kind) in enumerate(plans):
            accession = f"{1080000 + number * 137:010d}-{year}-{random.randrange(10**6):06d}"
            covers.append(
                {
                    "ACCESSION_NUMBER": accession,
                    "REPORTCALENDARORQUARTER": _QUARTERS[period],
                    # The first filings leave the flag empty, as many real ones do.
                    "ISAMENDMENT": "Y" if amendment else random.choice(("", "N")),
                    "AMENDMENTNO": amendment,
                    "AMENDMENTTYPE": kind,
                    "FILINGMANAGER_NAME": name,
                    "FILINGMANAGER_CITY": random.choice(("NEW YORK", "BOSTON", "OMAHA")),
                    "REPORTTYPE": "13F HOLDINGS REPORT",
                }
            )
            rows += _holdings(random, accession, quarter, cusips, number, position)
    order = list(range(len(covers)))
    random.shuffle(order)
    return [covers[place] for place in order], rows


def _holdings(
    random: Random, accession: str, quarter: str, cusips: list[str], manager: int, position: int
) -> list[dict[str, Any]]:
    scale = 1 if quarter.startswith("2022") else 1000
    held = [place for place in range(len(_ISSUERS)) if place < 3 or random.random() < 0.75]
    random.shuffle(held)
    rows: list[dict[str, Any]] = []
    for place in held:
        issuer, title = _ISSUERS[place]
        bond = title.startswith("NOTE")
        # Several rows per security (one per other manager), some of them options or principal.
        kinds = ["", ""] if place < 4 or random.random() < 0.4 else [""]
        if not bond and (place < 3 or random.random() < 0.3):
            kinds += [random.choice(("Put", "Call"))]
        if place < 2 and manager % 2 == 0:
            kinds += ["PRN"]
        for kind in kinds:
            amount = random.randrange(2_000, 900_000)
            value = random.randrange(900, 90_000) * scale + random.randrange(scale)
            principal = bond or kind == "PRN"
            rows.append(
                {
                    "ACCESSION_NUMBER": accession,
                    "INFOTABLE_SK": len(rows) + 1 + position * 1000,
                    "NAMEOFISSUER": issuer,
                    "TITLEOFCLASS": title if random.random() < 0.8 else title.title(),
                    "CUSIP": cusips[place],
                    "FIGI": "",
                    "VALUE": value,
                    "SSHPRNAMT": amount,
                    "SSHPRNAMTTYPE": "PRN" if principal else "SH",
                    "PUTCALL": kind if kind in ("Put", "Call") else "",
                    "INVESTMENTDISCRETION": random.choice(("SOLE", "DFND")),
                    "OTHERMANAGER": random.choice(("", "1", '"1,2"')).replace('"', ""),
                    "VOTING_AUTH_SOLE": amount,
                    "VOTING_AUTH_SHARED": 0,
                    "VOTING_AUTH_NONE": 0,
                }
            )
    return rows


def _tsv(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    lines = ["\t".join(columns)]
    lines += ["\t".join(str(row[column]) for column in columns) for row in rows]
    return "\n".join(lines) + "\n"


_ALERTS = """[
  {"type": "issuer_holders", "issuer": "quill and anchor"},
  {"type": "price_move", "issuer": "tidewater power"},
  {"type": "fund_top", "fund": "granite harbor"},
  {"type": "issuer_holders", "issuer": "Quill and Anchor"},
  {"type": "issuer_holders", "issuer": "o'dell foods"},
  {"type": "fund_top", "fund": "alder street"},
  {"type": "fund_top", "fund": "Granite Harbor"},
  {"type": "issuer_holders", "issuer": "briar and stone"}
]
"""
_BRIEF = """{
  "as_of": "",
  "sections": [
    {"title": "exposure", "items": [
      {"query": "blue mesa", "gross_usd": 0, "lines": 0},
      {"query": "alder street", "gross_usd": 0, "lines": 0}]},
    {"title": "leaders", "items": [
      {"query": "tidewater power", "top_holder": ""},
      {"query": "halcyon bio", "top_holder": ""}]}
  ],
  "notes": ["Figures are unaudited.", "Amounts in US dollars."]
}
"""

# The reference solution, row by row.


def solve(task: str, files: Files, ways: Ways) -> Any:
    """The answer of a task by the ways given."""
    return _SOLVERS[task](files, ways)


def _table(text: str) -> list[dict[str, str]]:
    header, *lines = text.strip("\n").split("\n")
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


_SUFFIXES = {"llc", "lp", "inc", "corp", "co", "plc", "ltd", "partners", "capital", "management",
             "advisors", "group", "holdings", "trust"}  # fmt: skip


def _plain(name: str) -> str:
    text = name.lower().replace("&", " and ").replace("-", " ").replace("pwr", "power")
    words = "".join(sign for sign in text if sign.isalnum() or sign in " '").split()
    while words and words[-1] in _SUFFIXES:
        words.pop()
    return " ".join(words)


def _is(name: str, query: str, ways: Ways) -> bool:
    if ways.get("names", "normalised") == "exact":
        return name.lower().startswith(query.lower())
    return _plain(name) == _plain(query)


class _Quarter:
    """The filings of a folder, by the ways that concern filings."""

    def __init__(self, files: Files, quarter: str, ways: Ways) -> None:
        self.ways = ways
        self.thousands = ways.get("units", "as_filed") == "thousands"
        covers = _table(files[f"{quarter}/COVERPAGE.tsv"])
        if ways.get("period", "asked") == "asked":
            covers = [c for c in covers if c["REPORTCALENDARORQUARTER"] == _QUARTERS[quarter]]
        how = ways.get("amendments", "latest")
        if how == "original":
            covers = [cover for cover in covers if not cover["AMENDMENTNO"]]
        if how == "latest":
            last: dict[tuple[str, str], dict[str, str]] = {}
            for cover in covers:
                key = (_plain(cover["FILINGMANAGER_NAME"]), cover["REPORTCALENDARORQUARTER"])
                if key not in last or cover["AMENDMENTNO"] > last[key]["AMENDMENTNO"]:
                    last[key] = cover
            covers = [cover for cover in covers if cover in last.values()]
        self.covers = covers
        self.rows = defaultdict(list)
        seen = set()
        for row in _table(files[f"{quarter}/INFOTABLE.tsv"]):
            key = (row["ACCESSION_NUMBER"], row["CUSIP"])
            if ways.get("records", "every") == "every" or key not in seen:
                self.rows[row["ACCESSION_NUMBER"]].append(row)
            seen.add(key)

    def filings(self, query: str) -> list[dict[str, str]]:
        return [c for c in self.covers if _is(c["FILINGMANAGER_NAME"], query, self.ways)]

    def held(self, covers: list[dict[str, str]], *, equity: bool) -> list[dict[str, str]]:
        rows = [row for cover in covers for row in self.rows[cover["ACCESSION_NUMBER"]]]
        return [row for row in rows if self._equity(row)] if equity else rows

    def _equity(self, row: dict[str, str]) -> bool:
        leaves_out = self.ways.get("options", "leave_out") == "leave_out"
        return not row["TITLEOFCLASS"].upper().startswith("NOTE") and not (
            leaves_out and row["PUTCALL"]
        )

    def gross(self, covers: list[dict[str, str]]) -> list[dict[str, str]]:
        leaves_out = self.ways.get("options", "count") == "leave_out"
        return [r for r in self.held(covers, equity=False) if not (leaves_out and r["PUTCALL"])]

    def value(self, row: dict[str, str]) -> int:
        return int(row["VALUE"]) * (1000 if self.thousands else 1)

    def by(self, rows: list[dict[str, str]], column: str) -> dict[str, int]:
        sums: dict[str, int] = {}
        for row in rows:
            sums[row[column]] = sums.get(row[column], 0) + self.value(row)
        return sums

    def cusip(self, query: str) -> str:
        exact = self.ways.get("names", "normalised") == "exact"
        wanted = query if exact else _ALIASES.get(query.lower(), query)
        for rows in self.rows.values():
            for row in rows:
                if _is(row["NAMEOFISSUER"], wanted, self.ways):
                    return row["CUSIP"]
        return ""

    def sorted(self, values: dict[str, int]) -> list[str]:
        if self.ways.get("order", "by_value") == "as_found":
            return list(values)
        return sorted(values, key=lambda key: (-values[key], key))

    def holders(self, cusip: str) -> dict[str, int]:
        totals: dict[str, int] = {}
        for cover in self.covers:
            for row in self.held([cover], equity=True):
                if row["CUSIP"] == cusip:
                    name = cover["FILINGMANAGER_NAME"]
                    totals[name] = totals.get(name, 0) + self.value(row)
        return totals


def _snapshot(files: Files, ways: Ways) -> Any:
    quarter = _Quarter(files, "2025-q3", ways)
    filings = quarter.filings("granite harbor")
    equity = quarter.held(filings, equity=True)
    every = quarter.held(filings, equity=False)
    first = filings[0] if filings else {"FILINGMANAGER_NAME": "", "ACCESSION_NUMBER": ""}
    return {
        "manager": first["FILINGMANAGER_NAME"],
        "accession": first["ACCESSION_NUMBER"],
        "total_value": sum(map(quarter.value, every)),
        "holding_rows": len(every),
        "equity_value": sum(map(quarter.value, equity)),
        "largest_cusips": quarter.sorted(quarter.by(equity, "CUSIP"))[:3],
    }


def _breakdown(files: Files, ways: Ways) -> Any:
    quarter = _Quarter(files, "2022-q3", {"period": "asked", **ways})
    filings = quarter.filings("blue mesa")
    rows = [{**row, "LABEL": row["TITLEOFCLASS"].lower()} for row in quarter.gross(filings)]
    usd = quarter.by(rows, "LABEL")
    return {
        "fund": filings[0]["FILINGMANAGER_NAME"] if filings else "",
        "filing": filings[0]["ACCESSION_NUMBER"] if filings else "",
        "classes": [
            {
                "label": label,
                "rows": sum(row["LABEL"] == label for row in rows),
                "usd": usd[label],
            }
            for label in quarter.sorted(usd)
        ],
        "usd_total": sum(usd.values()),
    }


def _books(files: Files, ways: Ways, query: str) -> tuple[dict[str, int], dict[str, int], _Quarter]:
    """Value per CUSIP in the earlier and the later quarter."""
    quarters = [_Quarter(files, name, ways) for name in ("2025-q2", "2025-q3")]
    before, after = (
        quarter.by(quarter.held(quarter.filings(query), equity=True), "CUSIP")
        for quarter in quarters
    )
    if ways.get("absent", "zero") == "common":
        common = set(before) & set(after)
        before = {cusip: value for cusip, value in before.items() if cusip in common}
        after = {cusip: value for cusip, value in after.items() if cusip in common}
    return before, after, quarters[1]


def _shift(files: Files, ways: Ways) -> Any:
    before, after, quarter = _books(files, ways, "northwind ridge")
    change = {key: after.get(key, 0) - before.get(key, 0) for key in [*after, *before]}
    opened = {key: value for key, value in after.items() if key not in before}
    rises = {key: value for key, value in change.items() if value > 0}
    falls = {key: -value for key, value in change.items() if value < 0}
    return {
        "query": "northwind ridge",
        "raised": quarter.sorted(rises)[:3],
        "cut": quarter.sorted(falls)[:3],
        "opened": quarter.sorted(opened)[:2],
        "net_change": sum(change.values()),
    }


def _rollup(files: Files, ways: Ways) -> Any:
    quarter = _Quarter(files, "2025-q3", ways)
    cusip = quarter.cusip("quill and anchor")
    shares: dict[str, int] = {}
    for cover in quarter.covers:
        for row in quarter.held([cover], equity=True):
            counts = ways["principal"] == "add_all" or row["SSHPRNAMTTYPE"] == "SH"
            if row["CUSIP"] == cusip:
                name = cover["FILINGMANAGER_NAME"]
                shares[name] = shares.get(name, 0) + (int(row["SSHPRNAMT"]) if counts else 0)
    holders = quarter.holders(cusip)
    return {
        "issuer": "quill and anchor",
        "cusip": cusip,
        "holders": [
            {"name": name, "market_value": holders[name], "shares": shares[name]}
            for name in quarter.sorted(holders)
        ],
        "holder_count": len(holders),
    }


def _grid(files: Files, ways: Ways) -> Any:
    quarter = _Quarter(files, "2022-q3", ways)
    grid = []
    for manager in ("granite harbor", "alder street"):
        book = quarter.by(quarter.held(quarter.filings(manager), equity=True), "CUSIP")
        cells = [
            {"issuer_query": issuer, "dollars": book.get(quarter.cusip(issuer), 0)}
            for issuer in ("quill and anchor", "tidewater power", "o'dell foods")
        ]
        grid.append({"manager_query": manager, "cells": cells})
    total = sum(cell["dollars"] for row in grid for cell in row["cells"])
    return {"quarter": "2022-q3", "grid": grid, "grid_total": total}


def _reconciliation(files: Files, ways: Ways) -> Any:
    pairs, checked = [], set()
    for manager in ("granite harbor", "blue mesa"):
        before, after, quarter = _books(files, ways, manager)
        alone = {
            cusip: before.get(cusip, 0) + after.get(cusip, 0)
            for cusip in [*before, *after]
            if (cusip in before) != (cusip in after)
        }
        checked |= set(before) | set(after)
        pairs.append(
            {
                "manager_query": manager,
                "before": sum(before.values()),
                "after": sum(after.values()),
                "unmatched": quarter.sorted(alone),
            }
        )
    return {"pairs": pairs, "checked": len(checked)}


def _alerts(files: Files, ways: Ways) -> Any:
    import json

    quarter = _Quarter(files, "2025-q3", {"period": "asked", **ways})
    issuers, funds, seen = [], [], set()
    for alert in json.loads(files["alerts.json"]):
        query = str(alert.get("issuer") or alert.get("fund"))
        key = (alert["type"], query.lower())
        if alert["type"] not in ("issuer_holders", "fund_top"):
            continue
        if ways["repeats"] == "once" and key in seen:
            continue
        seen.add(key)
        if alert["type"] == "issuer_holders":
            top = quarter.sorted(quarter.holders(quarter.cusip(query)))[:2]
            issuers.append({"issuer_query": query, "top_managers": top})
        else:
            book = quarter.by(quarter.held(quarter.filings(query), equity=True), "CUSIP")
            funds.append({"fund_query": query, "top_cusip": "".join(quarter.sorted(book)[:1])})
    return {
        "issuer_alerts": issuers,
        "fund_alerts": funds,
        "answered": len(issuers) + len(funds),
    }


def _brief(files: Files, ways: Ways) -> Any:
    import json

    quarter = _Quarter(files, "2022-q3", ways)
    brief = json.loads(files["brief.json"])
    brief["as_of"] = "2022-09-30"
    for section in brief["sections"]:
        for item in section["items"]:
            if section["title"] == "exposure":
                rows = quarter.gross(quarter.filings(item["query"]))
                item |= {"gross_usd": sum(map(quarter.value, rows)), "lines": len(rows)}
            else:
                holders = _gross_holders(quarter, quarter.cusip(item["query"]))
                item["top_holder"] = max(holders, key=lambda name: holders[name], default="")
    return brief


def _gross_holders(quarter: _Quarter, cusip: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for cover in quarter.covers:
        for row in quarter.gross([cover]):
            if row["CUSIP"] == cusip:
                name = cover["FILINGMANAGER_NAME"]
                totals[name] = totals.get(name, 0) + quarter.value(row)
    return totals


_SOLVERS = {
    "fund-snapshot": _snapshot,
    "class-breakdown": _breakdown,
    "quarter-shift": _shift,
    "issuer-rollup": _rollup,
    "manager-issuer-grid": _grid,
    "quarter-reconciliation": _reconciliation,
    "alert-pack": _alerts,
    "brief-refresh": _brief,
}

# The second method: relational, with nothing of the first but the files.


def recompute(task: str, files: Files) -> Any:
    """The right answer, by joins over whole tables."""
    frames = {quarter: _positions(files, quarter) for quarter in _FOLDERS[task]}
    return _SECOND[task](frames, files)


def _read(text: str) -> pl.DataFrame:
    table = pl.read_csv(text.encode(), separator="\t", infer_schema=False, quote_char=None)
    return table.fill_null("")


def _key(column: str) -> pl.Expr:
    """A name reduced to what its spellings share."""
    plain = (
        pl.col(column)
        .str.to_lowercase()
        .str.replace_all("&", " and ", literal=True)
        .str.replace_all(r"\bpwr\b", "power")
        .str.replace_all(r"-", " ")
        .str.replace_all(r"[^\w\s']", "")
    )
    ends = "|".join(sorted(_SUFFIXES))
    return plain.str.replace(rf"(?:\s+(?:{ends}))+\s*$", "").str.replace_all(r"\s+", " ")


def _positions(files: Files, quarter: str) -> pl.DataFrame:
    """The rows of the filings that count, in dollars, with the manager's name and key."""
    covers = (
        _read(files[f"{quarter}/COVERPAGE.tsv"])
        .filter(pl.col("REPORTCALENDARORQUARTER") == _QUARTERS[quarter])
        .with_columns(manager=_key("FILINGMANAGER_NAME"))
        .sort("AMENDMENTNO")
        .unique("manager", keep="last", maintain_order=True)
    )
    dollars = 1000 if quarter < "2023" else 1
    return (
        _read(files[f"{quarter}/INFOTABLE.tsv"])
        .with_row_index("line")
        .join(covers, on="ACCESSION_NUMBER")
        .with_columns(
            usd=pl.col("VALUE").cast(pl.Int64) * dollars,
            amount=pl.col("SSHPRNAMT").cast(pl.Int64),
            option=pl.col("PUTCALL") != "",
            bond=pl.col("TITLEOFCLASS").str.to_uppercase().str.starts_with("NOTE"),
            issuer=_key("NAMEOFISSUER"),
        )
        .sort("line")
    )


def _equity(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(~pl.col("option") & ~pl.col("bond"))


def _ranked(frame: pl.DataFrame, by: str) -> list[str]:
    sums = frame.group_by(by).agg(pl.col("usd").sum())
    return sums.sort("usd", by, descending=[True, False])[by].to_list()


def _second_snapshot(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    own = frames["2025-q3"].filter(pl.col("manager") == "granite harbor")
    equity = _equity(own)
    return {
        "manager": own["FILINGMANAGER_NAME"][0],
        "accession": own["ACCESSION_NUMBER"][0],
        "total_value": own["usd"].sum(),
        "holding_rows": own.height,
        "equity_value": equity["usd"].sum(),
        "largest_cusips": _ranked(equity, "CUSIP")[:3],
    }


def _second_breakdown(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    own = frames["2022-q3"].filter(pl.col("manager") == "blue mesa")
    classes = (
        own.group_by(label=pl.col("TITLEOFCLASS").str.to_lowercase())
        .agg(rows=pl.len(), usd=pl.col("usd").sum())
        .sort("usd", "label", descending=[True, False])
    )
    return {
        "fund": own["FILINGMANAGER_NAME"][0],
        "filing": own["ACCESSION_NUMBER"][0],
        "classes": classes.to_dicts(),
        "usd_total": own["usd"].sum(),
    }


def _changes(frames: dict[str, pl.DataFrame], manager: str) -> pl.DataFrame:
    sides = [
        _equity(frames[quarter].filter(pl.col("manager") == manager))
        .group_by("CUSIP")
        .agg(pl.col("usd").sum().alias(name))
        for quarter, name in (("2025-q2", "before"), ("2025-q3", "after"))
    ]
    return sides[0].join(sides[1], on="CUSIP", how="full", coalesce=True)


def _second_shift(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    book = _changes(frames, "northwind ridge")
    change = pl.col("after").fill_null(0) - pl.col("before").fill_null(0)
    rows = book.with_columns(change=change)
    opened = rows.filter(pl.col("before").is_null()).sort(
        "after", "CUSIP", descending=[True, False]
    )
    rise = rows.filter(pl.col("change") > 0).sort("change", "CUSIP", descending=[True, False])
    fall = rows.filter(pl.col("change") < 0).sort("change", "CUSIP")
    return {
        "query": "northwind ridge",
        "raised": rise["CUSIP"].head(3).to_list(),
        "cut": fall["CUSIP"].head(3).to_list(),
        "opened": opened["CUSIP"].head(2).to_list(),
        "net_change": rows["change"].sum(),
    }


def _second_rollup(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    own = _equity(frames["2025-q3"]).filter(pl.col("issuer") == "quill and anchor")
    holders = (
        own.group_by(name="FILINGMANAGER_NAME")
        .agg(
            market_value=pl.col("usd").sum(),
            shares=pl.col("amount").filter(pl.col("SSHPRNAMTTYPE") == "SH").sum(),
        )
        .sort("market_value", "name", descending=[True, False])
    )
    return {
        "issuer": "quill and anchor",
        "cusip": own["CUSIP"][0],
        "holders": holders.to_dicts(),
        "holder_count": holders.height,
    }


def _second_grid(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    equity = _equity(frames["2022-q3"])
    grid = [
        {
            "manager_query": manager,
            "cells": [
                {
                    "issuer_query": issuer,
                    "dollars": equity.filter(
                        (pl.col("manager") == manager) & (pl.col("issuer") == issuer)
                    )["usd"].sum(),
                }
                for issuer in ("quill and anchor", "tidewater power", "o'dell foods")
            ],
        }
        for manager in ("granite harbor", "alder street")
    ]
    total = sum(cell["dollars"] for row in grid for cell in row["cells"])
    return {"quarter": "2022-q3", "grid": grid, "grid_total": total}


def _second_reconciliation(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    books = {name: _changes(frames, name) for name in ("granite harbor", "blue mesa")}
    pairs = []
    for name, book in books.items():
        alone = book.filter(pl.col("before").is_null() | pl.col("after").is_null())
        ranked = alone.with_columns(usd=pl.coalesce("before", "after"))
        pairs.append(
            {
                "manager_query": name,
                "before": book["before"].sum(),
                "after": book["after"].sum(),
                "unmatched": _ranked(ranked, "CUSIP"),
            }
        )
    return {"pairs": pairs, "checked": pl.concat(list(books.values()))["CUSIP"].n_unique()}


def _second_alerts(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    import json

    feed = (
        pl.DataFrame(json.loads(files["alerts.json"]))
        .filter(pl.col("type").is_in(["issuer_holders", "fund_top"]))
        .with_columns(query=pl.coalesce("issuer", "fund"))
        .with_columns(key=pl.col("query").str.to_lowercase())
        .unique(["type", "key"], keep="first", maintain_order=True)
    )
    equity = _equity(frames["2025-q3"])
    by_type = dict(feed.partition_by("type", as_dict=True).items())
    issuers, funds = by_type[("issuer_holders",)], by_type[("fund_top",)]
    return {
        "issuer_alerts": [
            {
                "issuer_query": query,
                "top_managers": _ranked(
                    equity.filter(pl.col("issuer") == key), "FILINGMANAGER_NAME"
                )[:2],
            }
            for query, key in issuers.select("query", "key").rows()
        ],
        "fund_alerts": [
            {
                "fund_query": query,
                "top_cusip": _ranked(equity.filter(pl.col("manager") == key), "CUSIP")[0],
            }
            for query, key in funds.select("query", "key").rows()
        ],
        "answered": feed.height,
    }


def _second_brief(frames: dict[str, pl.DataFrame], files: Files) -> Any:
    rows = frames["2022-q3"]

    def exposure(query: str) -> dict[str, Any]:
        own = rows.filter(pl.col("manager") == query)
        return {"query": query, "gross_usd": own["usd"].sum(), "lines": own.height}

    def leader(query: str) -> dict[str, Any]:
        own = rows.filter(pl.col("issuer") == query)
        return {"query": query, "top_holder": _ranked(own, "FILINGMANAGER_NAME")[0]}

    return {
        "as_of": "2022-09-30",
        "sections": [
            {"title": "exposure", "items": [exposure("blue mesa"), exposure("alder street")]},
            {"title": "leaders", "items": [leader("tidewater power"), leader("halcyon bio")]},
        ],
        "notes": ["Figures are unaudited.", "Amounts in US dollars."],
    }


_SECOND = {
    "fund-snapshot": _second_snapshot,
    "class-breakdown": _second_breakdown,
    "quarter-shift": _second_shift,
    "issuer-rollup": _second_rollup,
    "manager-issuer-grid": _second_grid,
    "quarter-reconciliation": _second_reconciliation,
    "alert-pack": _second_alerts,
    "brief-refresh": _second_brief,
}

FAMILY = Family(
    title="Quarterly holdings reports in the layout of the SEC's 13F data sets",
    steps=STEPS,
    fields=FIELDS,
    tasks=TASKS,
    generate=generate,
    solve=solve,
    recompute=recompute,
)
