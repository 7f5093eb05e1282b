"""The vocabulary that the demo's project is written in: a harbor's day. Data only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PORTS", "THINGS", "VERBS", "Thing"]


class Thing(NamedTuple):
    """Something that a module of the project is about.

    Attributes:
        name: singular, as in code.
        plural: as in code.
        fields: (name, type, unit or "", what it is).
        why: a sentence for the module's docstring.
    """

    name: str
    plural: str
    fields: tuple[tuple[str, str, str, str], ...]
    why: str


_ID = ("key", "str", "", "stable name, unique in its registry")
_START = ("start_min", "int", "minutes", "first minute, from midnight UTC of day zero")
_UNTIL = ("until_min", "int", "minutes", "last minute that still counts")

THINGS: tuple[Thing, ...] = (
    Thing(
        "berth",
        "berths",
        (_ID, ("length_m", "float", "m", "usable quay length"), ("depth_m", "float", "m", "at mean low water"), _START, _UNTIL),
        "A berth is held by one vessel at a time; two holds that touch at a minute must not collide.",
    ),
    Thing(
        "tide",
        "tides",
        (_ID, ("height_m", "float", "m", "above chart datum"), _START, _UNTIL, ("station", "str", "", "gauge that measured it")),
        "Tide windows come from gauges every six minutes and are merged into stretches of usable water.",
    ),
    Thing(
        "vessel",
        "vessels",
        (
            _ID,
            ("draft_m", "float", "m", "deepest point, loaded"),
            ("beam_m", "float", "m", "widest point"),
            ("flag", "str", "", "two letters"),
        ),
        "A vessel knows its draft; whether it can enter is asked of tide and lock together.",
    ),
    Thing(
        "pilot",
        "pilots",
        (_ID, ("grade", "int", "", "1 to 4, 4 may take any hull"), _START, _UNTIL, ("boat", "str", "", "pilot boat")),
        "Pilots work shifts with a legal rest between; a shift is never stretched to save a tide.",
    ),
    Thing(
        "lock",
        "locks",
        (
            _ID,
            ("chamber_m", "float", "m", "usable chamber length"),
            ("cycle_min", "int", "minutes", "one way, doors included"),
            _START,
            _UNTIL,
        ),
        "A lock cycle blocks the chamber for its whole length, also when it runs empty.",
    ),
    Thing(
        "crane",
        "cranes",
        (_ID, ("reach_m", "float", "m", "outreach over water"), ("moves_per_hour", "int", "", "planned rate"), _START, _UNTIL),
        "Cranes share rails: the order of keys is the order along the quay and cranes cannot pass each other.",
    ),
    Thing(
        "convoy",
        "convoys",
        (_ID, ("size_count", "int", "", "vessels in it"), ("gap_min", "int", "minutes", "between two vessels"), _START, _UNTIL),
        "Convoys form at the roads and keep their gaps through the channel.",
    ),
    Thing(
        "tug",
        "tugs",
        (_ID, ("pull_t", "float", "t", "bollard pull"), ("fuel_pct", "int", "%", "as last reported"), _START, _UNTIL),
        "A tug is bound from the moment it leaves its station, not from the moment the line is fast.",
    ),
    Thing(
        "channel",
        "channels",
        (
            _ID,
            ("width_m", "float", "m", "dredged width"),
            ("depth_m", "float", "m", "charted"),
            ("silt_m", "float", "m", "since last survey"),
        ),
        "Charted depth less silt is what counts; a survey older than a season counts as no survey.",
    ),
    Thing(
        "cargo",
        "cargoes",
        (
            _ID,
            ("mass_t", "float", "t", "declared"),
            ("class_code", "str", "", "dangerous goods class or empty"),
            ("temp_c", "float", "C", "set point"),
        ),
        "Some classes may not lie beside each other; the distance is counted in berths.",
    ),
    Thing(
        "gate",
        "gates",
        (_ID, ("lane_count", "int", "", "open lanes"), ("trucks_per_hour", "int", "", "planned rate"), _START, _UNTIL),
        "Truck slots are handed out per gate and hour; an unused slot falls back to the pool.",
    ),
    Thing(
        "weather",
        "weathers",
        (_ID, ("wind_ms", "float", "m/s", "ten minute mean"), ("gust_ms", "float", "m/s", "highest of the hour"), _START, _UNTIL),
        "Gusts stop cranes before the mean does, so both are kept and neither is derived from the other.",
    ),
    Thing(
        "dredger",
        "dredgers",
        (_ID, ("hopper_m3", "float", "m3", "hopper volume"), ("speed_kn", "float", "kn", "laden"), _START, _UNTIL),
        "A dredger at work narrows the channel for everyone else.",
    ),
    Thing(
        "buoy",
        "buoys",
        (
            _ID,
            ("period_s", "float", "s", "of its light"),
            ("offset_m", "float", "m", "from the charted place"),
            ("color", "str", "", "red or green"),
        ),
        "A buoy off its place by more than its swing circle is reported, never silently moved on the chart.",
    ),
    Thing(
        "shift",
        "shifts",
        (_ID, ("crew_count", "int", "", "people on duty"), ("rest_min", "int", "minutes", "before it"), _START, _UNTIL),
        "Shifts hand over at a minute; that minute belongs to the shift that begins.",
    ),
    Thing(
        "customs",
        "customs_holds",
        (_ID, ("fee_cents", "int", "cents", "charged when the hold ends"), ("officer", "str", "", "initials"), _START, _UNTIL),
        "A hold keeps cargo on the quay, whatever the plan says about the vessel.",
    ),
)

VERBS: tuple[tuple[str, str], ...] = (
    ("reserve", "Take the first {thing} that is free and fits"),
    ("release", "Give a {thing} back before its time"),
    ("delay", "Move everything that follows when one {thing} is late"),
    ("swap", "Exchange two {plural} when both sides still fit"),
    ("split", "Cut one {thing} in two at a minute"),
    ("audit", "Compare the {plural} planned with those that happened"),
    ("forecast", "Look ahead and say which {plural} will run short"),
    ("export", "Write the {plural} for the yard system, one row each"),
)

PORTS: tuple[str, ...] = (
    "Hamburg-Köhlbrand",
    "Saint-Malo",
    "Gdańsk",
    "Ísafjörður",
    "Málaga",
    "Göteborg",
    "横浜",
    "부산",
    "Πειραιάς",
    "Одеса",
    "高雄",
    "Çanakkale",
    "Tromsø",
    "Ålesund",
    "Bilbao 🚢",
    "Zeebrugge ⚓",
)
