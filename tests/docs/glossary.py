"""Words that the project does not use, each with the one to use instead, and the search for them.

A word is searched for in names and in prose. Names are identifiers, split at `_` and at capitals. Prose is
comments, string literals, and the text of pages outside of code. A word that is good English in another
sense is searched for as a phrase.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

GAP = r"(?:\s|\#)+"
"""Between two words of a phrase: a line of prose may end there."""


@dataclass(frozen=True)
class Term:
    """One entry: the word to avoid, the word to use instead, and where the word to avoid is searched for."""

    word: str
    use: str
    keys: str
    """Words of which one occurs in every use; files without any are not searched further."""
    prose: str = ""
    """Regular expression without regard to case. A space is any white space. Empty: every key."""
    names: str = ""
    """Sequences of words in an identifier, separated by commas. Empty: every key."""
    except_in: tuple[str, ...] = ()
    """Beginnings of the paths where the word has its ordinary sense."""

    @cached_property
    def key_words(self) -> frozenset[str]:
        """`keys` as a set."""
        return frozenset(self.keys.split())

    @cached_property
    def prose_pattern(self) -> re.Pattern[str]:
        """The compiled `prose`."""
        expression = self.prose.replace(" ", GAP) or "|".join(self.key_words)
        return re.compile(rf"(?<![\w`-])(?:{expression})(?![\w`-])", re.IGNORECASE)

    @cached_property
    def name_sequences(self) -> tuple[str, ...]:
        """`names`, each as ` word word `, to be found in ` words of an identifier `."""
        sequences = self.names.split(",") if self.names else self.key_words
        return tuple(f" {sequence.strip()} " for sequence in sequences)


TERMS = (
    Term("picture", "fleet, cluster view", "picture pictures"),
    Term(
        "room",
        "free capacity, host resources",
        "room",
        prose=r"free room|room (?:for|left)|(?:no|has|have|had|enough|much|more|less|host) room",
        except_in=("tests/structure/", "tests/docs/", "informers/", "tests/informers/"),
    ),
    Term(
        "left",
        "free, remaining",
        "left",
        prose=r"(?:memory|seats?|capacity|CPU|devices?|slots?) left(?! (?:behind|an?|the))"
        r"|(?:node|host) has left",
        names="memory left, seats left, seconds left, room left, capacity left",
    ),
    Term(
        "cut a claim",
        "create a claim",
        "cut cuts cutting",
        prose=r"(?:cut|cuts|cutting) (?:a|an|the|its|their|own|one|another|no|dedicated)(?: \w+)? claims?"
        r"|claims? (?:is |was |are |were )?cut|cut (?:anew|for it|for them)",
        names="cut claim, cuts claim, claim cut, cut own",
    ),
    Term(
        "founder",
        "creator",
        "founder founders founding founded",
        # Names of recorded objects.
        except_in=("e2e/takeover/fixtures/",),
    ),
    Term(
        "take a seat",
        "book a seat",
        "take takes took taken taking",
        prose=r"(?:take|takes|took|taken|taking) (?:a|an|the|its|their|another|no|that|any|free|freed|one|up)"
        r"(?: \w+)? seats?",
        names="take seat, takes seat, took seat, seat taken, seats taken, take a seat, takes a seat",
    ),
    Term("sit", "share, book, hold a seat", "sit sits sat sitting"),
    Term(
        "line",
        "scheduling queue",
        "line",
        prose=r"waiting line|in line(?! with)|next in line|line of (?:waiting )?workers"
        r"|(?:join|joins|joined|leave|leaves|left) the line|place in (?:the )?line|head of the line",
        names="waiting line, in line, join line, leave line",
        # A program that reads lines.
        except_in=("e2e/kind/test_kind_installation.py",),
    ),
    Term("lane", "equivalence class", "lane lanes"),
    Term(
        "wake",
        "activate, enqueue",
        "wake wakes woke woken waking wakeup wakeups",
        prose=r"(?:wake|wakes|woke|woken|waking)(?!-ups?)",
        # Of tasks and loops that sleep.
        except_in=(
            *("informers/", "tests/informers/", "simulation/engine/", "tests/simulation/engine/"),
            *("bench/", "tests/controller/runtime/"),
        ),
    ),
    Term(
        "declined, passed over",
        "skipped",
        "decline declined passed",
        prose=r"declined?|passed over",
        names="declined, passed over",
    ),
    Term(
        "fresh read, past the cache",
        "live read",
        "fresh freshly past",
        prose=r"fresh (?:reads?|looks?)|freshly read|reads? fresh|past the caches?|read past",
        names="fresh read, read fresh, fresh workload, fresh pod, fresh claim, fresh ledger, past cache",
    ),
    Term(
        "look at, look again",
        "reconcile, check, requeue",
        "look looks looked looking",
        prose=r"(?:look|looks|looked|looking) (?:at|again)|(?:another|next) look",
        names="look at, looks at, looked at, looking at, look again, looks again",
        # The message that users read: "no scheduler has looked at Pod".
        except_in=(
            "controller/reconcile/reporting.py",
            "tests/contract/waits/test_gated_pods.py",
            "e2e/world/test_silent_pods.py",
        ),
    ),
    Term("seniority", "creation order", "seniority senior seniors"),
    Term("wedged", "stuck", "wedged wedge wedges"),
    Term("mend", "repair", "mend mends mended mending"),
    Term(
        "stray",
        "unrecorded seat",
        "stray strays",
        # Cancellations, and a label value of a metric.
        except_in=("informers/", "tests/informers/", "docs/operations.md"),
    ),
    Term(
        "stamp", "assignment ID", "stamp stamps stamped stamping", except_in=("Makefile", "e2e/controlplane/")
    ),
    Term(
        "fence (noun)",
        "fencing write",
        "fence fences",
        prose=r"(?:a|the|this|that|each|its|no|before|after|by|one) fences?",
        names="fences",
    ),
    Term(
        "order up, order down",
        "setup order, teardown order",
        "order orders",
        prose=r"orders? (?:up|down)",
        names="order up, order down",
    ),
    Term(
        "by turns",
        "time-sliced, time-shared",
        "turns",
        prose=r"by turns|(?:take|takes|taking|took) turns|turns at",
        names="by turns, take turns",
        except_in=("bench/", "tests/bench/", "docs/performance.md"),
    ),
    Term("parked", "suspended", "park parks parked parking"),
    Term("tell", "notify, report", "tells told telling"),
    Term("hear, speak", "receive, report", "hear hears heard speak speaks spoke spoken"),
    Term("know of", "have read", "knows knew known", prose=r"(?:knows|knew|known) of", names="knows of"),
    Term("come by", "reconcile, visit", "come comes came", prose=r"(?:come|comes|came) by", names="comes by"),
    Term("those who", "workers that", "those", prose=r"those who|those whom", names="those who"),
    Term("shall", "must, will", "shall"),
    Term("for ever", "forever", "ever", prose="for ever", names="for ever"),
)

FIXED = re.compile(
    r"ReplacingWedgedClaim|REPLACING_WEDGED_CLAIM|replacingwedgedclaim|replacing_wedged_claim|WedgedClaims"
    r"|wakeAll|code fences?|\bSTRAY\b"
)
"""Names of the API, which stay whatever they are made of."""

FIXED_LITERALS = frozenset({"stray"})
"""String literals that are values of the API, such as labels of metrics."""

RENAMED_CLASSES = {
    "controller": """
        Census=Gauges Tally=Counters Mend=RepairKind Chance=Nondeterminism Echoes=SelfWriteFilter
        HandOffs=HandOffLatency HandOut=ActivationPlanner WaitingLine=SchedulingQueue
        Picture=FleetUpdater Wakeups=QueueTriggers KubeLedgerApi=LedgerClient SeatBookInTurn=ClaimLocks
        Writer=ObjectWriter Verdict=PlacedUpdate Code=ReasonCode Part=ApiStruct Tools=ReconcileContext
        Memory=LocalState Seats=SeatBooker Moment=Milestone Allocations=AllocationTimes
        RefusedTargets=PlaceHolds UncountedWaits=TimeoutExemptions Rejections=RejectionBackoff
        Finding=RepairResult Standing=PodOwnership Outcome=StatusUpdate Kind=ValueType Group=HelpSection
        Check=JoinCheck Request=PlacementRequest Requests=PlacementRequests Facts=PlacementDetails
        EventKind=EventDefinition Definition=MetricDefinition
    """,
    "informers": """
        Material=ClientConfig Source=ConfigSource Access=Session Connections=SessionManager
        Connection=HttpPool Call=HttpRequest Choice=SelectedContext ExecStatus=ExecCredential
        Head=TypeMeta IndexedObjects=Indexer Replacement=PendingList Step=Transition
        Progress=ReflectorCounters WentBack=VersionRegressed Drop=DropReason
        SeriesMemory=EventSeriesCache Allowances=ObjectRateLimits Limits=Timeouts
        PermittedBody=GuardedBody State=ReflectorState Event=EventBody
    """,
    "placement": """
        Site=NodeInfo Room=HostResources Catalog=ShapeCatalog Profile=NodeProfile Tier=DeviceShape
        Rank=ClaimRank Cell=ClaimBucket FirstFit=RankedTree PoolGap=IncompletePool SeatHold=SeatInfo
        Standing=DerivedState Kind=CountKey Group=ClaimGroup Check=JoinCheck Request=PlacementRequest
    """,
    "ledger": """
        Purpose=BookingPurpose Remaining=SeatsRemain NowEmpty=LedgerEmpty Booking=SeatRequest
        Adopt=Grant Replace=Grant Add=Grant Refuse=Refusal OutcomeUnknown=LedgerOutcomeUnknown
        NameStanding=ClaimNameState
    """,
    "simulation": """
        Agenda=EventQueue Furnishing=NodeSetup OpenRL=WorkloadClient Surroundings=ReplicaContext
        Fate=CallFault Hands=ExternalActors Disturbances=PeriodicFaults Watchdog=InvariantChecker
        OrderWatch=WriteOrderChecker HandOver=HandOffCheck Mending=RepairCheck Sometimes=CoveragePoints
        World=SimulatedRun Outcome=RunOutcome Picture=ClusterView Plan=FaultPlan
    """,
    "bench": """
        BareWriter=BaselineWriter Stage=Testbed Scene=ContenderRun Facts=RunEnvironment Plan=BenchPlan
        Kind=ContenderInfo
    """,
}
"""Former names of classes by package, each with the present one."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def hits(path: str, text: str) -> Iterator[str]:
    """Each use of a word of the table in one file, as `path:line: word -> use`."""
    text = FIXED.sub(lambda match: "_" * len(match[0]), text)
    if path.endswith(".md"):
        text = _CODE.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    words = {word.lower() for word in set(_WORDS.findall(text))}
    terms = [term for term in TERMS if term.key_words & words and not path.startswith(term.except_in or "-")]
    if not path.endswith(".py"):
        yield from _prose_hits(path, 1, text, terms)
    elif terms:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        for line, prose in _python_prose(tokens):
            yield from _prose_hits(path, line, prose, terms)
        yield from _name_hits(path, tokens, terms)


def renamed_classes(path: str, text: str) -> Iterator[str]:
    """Each class of a module that has a former name."""
    pairs = RENAMED_CLASSES.get(Path(path).parts[0], "").split()
    renamed = dict(pair.split("=") for pair in pairs)
    if any(f"class {name}" in text for name in renamed):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name in renamed:
                yield f"{path}:{node.lineno}: class {node.name} -> {renamed[node.name]}"


def _prose_hits(path: str, line: int, prose: str, terms: list[Term]) -> Iterator[str]:
    lowered = prose.lower()
    for term in terms:
        if any(key in lowered for key in term.key_words):
            for match in term.prose_pattern.finditer(prose):
                at = line + prose.count("\n", 0, match.start())
                yield f"{path}:{at}: {' '.join(match[0].split())} -> {term.use}"


def _python_prose(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    """String literals, and comments; those of consecutive lines together. Each with its first line."""
    comments: list[str] = []
    first = last = 0
    for token in tokens:
        if token.type == tokenize.COMMENT:
            if comments and token.start[0] != last + 1:
                yield first, "\n".join(comments)
                comments = []
            if not comments:
                first = token.start[0]
            comments.append(token.string)
            last = token.start[0]
        elif token.type == tokenize.STRING and token.string.strip("\"'") not in FIXED_LITERALS:
            yield token.start[0], token.string
    if comments:
        yield first, "\n".join(comments)


def _name_hits(path: str, tokens: Iterable[tokenize.TokenInfo], terms: list[Term]) -> Iterator[str]:
    seen: set[str] = set()
    for token in tokens:
        if token.type != tokenize.NAME or token.string in seen:
            continue
        seen.add(token.string)
        words = f" {' '.join(_WORDS.findall(token.string)).lower()} "
        for term in terms:
            if any(sequence in words for sequence in term.name_sequences):
                yield f"{path}:{token.start[0]}: {token.string} -> {term.use}"
