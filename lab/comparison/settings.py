"""INI files of settings as the programs read them, and what a run's settings are."""
import re
import sys

OF_FLEET = ("fleet.", "data.")  # sections that tern-fleet reads
NOT_OF_AGGREGATOR = OF_FLEET + ("experiment.", "deep.")
OWN_HELPER = "https://127.0.0.1:0"
FLEET_READS_TOO = ("round.rounds", "federation.model")  # of tern-aggregator's (lab/fleet/settings.c)


def of_aggregator(settings):
    return {key: value for key, value in settings.items() if not key.startswith(NOT_OF_AGGREGATOR)}


def header(line):
    """The name of the section that starts here, as the programs read it; None for other lines."""
    line = line.strip()
    return line[1:].partition("]")[0] if line.startswith("[") else None


def lines(path):
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        yield from enumerate(file, 1)


def has_section(path, wanted):
    return any(header(line) == wanted for _, line in lines(path))


def entries(path):
    """(line number, section, key, value) of all that stands in a file; keys may repeat."""
    inside = ""
    for number, line in lines(path):
        line = line.strip()
        if header(line) is not None:
            inside = header(line)
        elif line and line[0] not in ";#":
            key, equals, value = line.partition("=")
            if not equals:
                sys.exit("%s:%d: '%s' is not key = value" % (path, number, line))
            yield number, inside, key.strip(), value.strip()


def section(path, wanted):
    """(line number, key, value) of one section."""
    for number, inside, key, value in entries(path):
        if inside == wanted:
            yield number, key, value


def is_override(text):
    return re.fullmatch(r"[a-z_]+\.[a-z_0-9]+=[^\t]*", text) is not None


def effective(path, overrides):
    """What a run's settings are: {"section.key": value}, without its plan; the last word counts."""
    settings = {"%s.%s" % (inside, key): value for _, inside, key, value in entries(path)
                if inside != "experiment"}
    for override in overrides:
        key, _, value = override.partition("=")
        settings[key] = value
    return settings


def as_ini(settings):
    """A file of these settings, a section after the other; the same settings always give the same."""
    text, inside = [], None
    for name, value in sorted(settings.items()):
        where, _, key = name.partition(".")
        if where != inside:
            text.append("[%s]" % where)
            inside = where
        text.append("%s = %s" % (key, value))
    return "\n".join(text) + "\n"


def write(path, settings):
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(as_ini(settings))


def is_deep(settings):
    """Whether lab/deep/run.py makes the run, and not tern-fleet."""
    return any(name.startswith("deep.") for name in settings)


OF_SECURE = ("secure.", "privacy.")  # sections of secure rounds


def is_secure(settings):
    """Whether the run has secure rounds: with a helper of its own, which lab/private/demo.py starts on a free port."""
    helper = settings.get("secure.helper", "")
    if helper not in ("", OWN_HELPER):
        sys.exit("secure.helper = %s: an experiment starts a helper of its own; set secure.helper = %s" % (helper, OWN_HELPER))
    return helper != ""


def without_secure(settings):
    """Returns the settings that both programs read: tern-fleet has other keys in [secure] than tern-aggregator, and no [privacy]."""
    return {key: value for key, value in settings.items() if not key.startswith(OF_SECURE)}


def ordered(value):
    """A spec string, NAME:KEY=VALUE,..., with its keys in order; any other value unchanged."""
    name, _, keys = (value or "").partition(":")
    words = keys.split(",")
    return (name, *sorted(words)) if all("=" in word for word in words) else value


def differences(one, other):
    """(key, value of one, value of other) of what is not the same; None: not set."""
    return [(key, one.get(key), other.get(key)) for key in sorted(set(one) | set(other))
            if ordered(one.get(key)) != ordered(other.get(key))]
