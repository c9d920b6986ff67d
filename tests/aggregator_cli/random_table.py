"""Makes random tables whose meaning is known: what a person would read in them, and how the file writes it."""
import math
import random

MISSING = ("", "NA", "N/A", "nan", "NaN", "null", "NULL", "?", "#N/A", "na", "(null)", "N A", "n.a.", "\u00a0", "<NA>", "[null]",
           "\u202f", "n/a.", "(NaN)")
DOUBTFUL = ("-", "none", ".", "missing", "Unknown", "--", "\u2014", "n.d.", "not available", "-999", "(none)", "TBD", "nil", "??")
FLAGS = (("true", "false"), ("True", "False"), ("yes", "no"), ("YES", "NO"), ("on", "off"), ("T", "F"), ("y", "n"))
BLANKS = ("\u00a0", "\u2007", "\u202f", "\u3000", "\u2009", "\ufeff")
CLASSES = (("ok", "worn"), ("good", "bad", "blocked"), ("0", "1"), ("0", "1", "2", "3"), ("1", "2", "3"),
           ("rouge", "bleu", "vert"), ("low", "mid", "high", "very high"), ("grün", "weiß"), ("yes", "no"), ("a,b", "c"))
NAMES = ("temp", "rpm", "flow", "vib", "amps", "volt", "humidity", "pressure", "bar", "noise", "load", "x1", "x2",
         "flow (l/min)", "°C", "p|q", "x;y", "a, b")

# Quirks of a file: a program may refuse those of REFUSABLE by name, and reads all others as a person does.
READ = ("plain", "quote_all", "quote_text", "pad_after_comma", "pad_numbers", "crlf", "bom", "no_last_newline",
        "empty_lines_at_end", "missing_features", "signs_and_exponents", "padded_labels", "constant_column",
        "text_column", "label_first", "true_false_column", "two_texts", "odd_blanks", "odd_minus", "date_column", "blank_in_name", "mixed_quotes", "blanks_around_quotes")
REFUSABLE = ("semicolons", "tabs", "sep_line", "decimal_commas", "latin1_label", "latin1_name", "utf16", "cr",
             "repeated_header", "units_row", "numeric_header", "no_header", "trailing_commas", "row_names",
             "ragged_line", "missing_labels", "cased_labels", "bad_target_cell", "missing_target", "index_column",
             "unix_time", "duplicate_names", "tab_in_name", "quoted_blanks", "comment_line", "odd_feature_cell",
             "nameless_index", "falling_time", "empty_column", "float_labels", "quoted_line_end", "title", "shuffled_index", "patient_id",
             "time_in_ms", "doubtful_labels", "total_row", "units_of_label", "thousands", "other_case_header")


class Table:
    """rows: lists of numbers (None where one is missing) and the label or target last; quirks: how it is written."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        draw = self.random
        self.quirks = {draw.choice(READ), draw.choice(READ + REFUSABLE)}
        self.quirks -= {"plain"}
        self.task = draw.choice(("classes", "classes", "number"))
        self.settle()
        count = draw.randint(1, 6)
        self.names = draw.sample(NAMES, count)
        self.place = [(draw.choice((0, 1, 20, -300, 5e4)), draw.choice((0.01, 1, 40))) for _ in self.names]
        self.classes = list(draw.choice(CLASSES))
        self.rows = [self.row(i) for i in range(draw.randint(40, 90))]
        self.label = "state" if self.task == "classes" else "yield"
        self.spoil()

    def settle(self):
        """Drops quirks that do not go together, or mean nothing for the task."""
        if self.task == "number":
            self.quirks -= {"missing_labels", "cased_labels", "padded_labels", "latin1_label", "doubtful_labels", "total_row",
                            "units_of_label"}
        else:
            self.quirks -= {"bad_target_cell", "missing_target"}
        if self.task == "number":
            self.quirks -= {"float_labels"}
        for one in ("numeric_header", "no_header"):
            if one in self.quirks:
                self.quirks &= {one, "crlf", "pad_numbers", "no_last_newline"}
        if "decimal_commas" in self.quirks:
            self.quirks = {"decimal_commas"}
        if "padded_labels" in self.quirks:  # blanks within quotes are kept
            self.quirks -= {"quote_all", "quote_text", "mixed_quotes", "cased_labels"}
        if "label_first" in self.quirks:
            self.quirks -= {"row_names", "nameless_index", "quoted_blanks"}

    def number(self, column):
        mean, spread = self.place[column]
        return round(self.random.gauss(mean, spread), 4)

    def row(self, i):
        values = [self.number(c) for c in range(len(self.names))]
        if self.task == "classes":
            return values + [self.classes[i % len(self.classes)] if i < 12 else self.random.choice(self.classes)]
        return values + [round(sum(values) / 7 + self.random.gauss(0, 3), 3)]

    def spoil(self):
        """What is wrong with values, as a person would know it."""
        draw = self.random
        self.spelling = {}  # (row, column): the text of a cell, as it stands in the file
        last = len(self.names)
        some = draw.sample(range(len(self.rows)), 3)
        spelling = draw.choice(MISSING)
        if "missing_features" in self.quirks:
            column = draw.randrange(last)
            for r in some:
                self.rows[r][column] = None
                self.spelling[r, column] = spelling
        if "missing_labels" in self.quirks or "missing_target" in self.quirks:
            for r in some:
                self.rows[r][last] = None
                self.spelling[r, last] = spelling
        if "doubtful_labels" in self.quirks:
            for r in some:
                self.rows[r][last] = None
                self.spelling[r, last] = draw.choice(DOUBTFUL)
        if "bad_target_cell" in self.quirks:
            self.rows[some[0]][last] = None
            self.spelling[some[0], last] = draw.choice(("<0.5", ">100", "n.d.", "err", "1.2.3", "12 kg"))
        if "odd_feature_cell" in self.quirks:
            self.rows[some[0]][0] = None
            self.spelling[some[0], 0] = draw.choice(("inf", "-inf", "12%", "1,234.5", "0x1F", "1e99", "<3", "1.2.3", "#REF!"))
        if "float_labels" in self.quirks and self.classes[0] == "0":
            for row in self.rows:
                row[last] += ".0"
        if "blank_in_name" in self.quirks:
            self.names[0] = "flow (l min)"
        if "quoted_line_end" in self.quirks:
            self.names[0] = "flow\nl/min"
        if "padded_labels" in self.quirks and self.classes != ["a,b", "c"]:
            for r in some:
                self.spelling[r, last] = draw.choice((" {}", "{} ", "  {}  ")).format(self.rows[r][last])
        if "cased_labels" in self.quirks:
            for r in some:
                if self.rows[r][last].lower() != self.rows[r][last].upper():
                    self.rows[r][last] = self.rows[r][last].upper()
        if "latin1_label" in self.quirks:
            for row in self.rows:
                row[last] = row[last] + "é" if row[last] == self.classes[0] else row[last]
        if "latin1_name" in self.quirks:
            self.names[0] = "température"
        if "tab_in_name" in self.quirks:
            self.names[0] = "a\tb"
        if "duplicate_names" in self.quirks and last > 1:
            self.names[1] = self.names[0]

    # --- Writing

    def cell(self, r, c):
        text = self.spelling.get((r, c))
        value = self.rows[r][c]
        if text is None:
            if isinstance(value, str):
                text = value
            elif "signs_and_exponents" in self.quirks and self.random.random() < 0.5:
                text = f"{value:+.6e}"
            else:
                text = f"{value:.4f}" if self.random.random() < 0.8 else repr(value)
        if "decimal_commas" in self.quirks and isinstance(value, float):
            text = text.replace(".", ",")
        if "pad_numbers" in self.quirks and isinstance(value, float):
            text = f"{text:>12}"
        if "odd_minus" in self.quirks and isinstance(value, float):
            text = text.replace("-", "\u2212")
        if "thousands" in self.quirks and isinstance(value, float) and abs(value) >= 1000 and "e" not in text:
            text = f"{value:,.2f}".replace(",", self.random.choice(("\u2009", "\u202f", "\u00a0", "'", "\u2019", " ")))
        if "odd_blanks" in self.quirks and "," not in text and (isinstance(value, float) or self.quirks.isdisjoint({"quote_all", "quote_text", "mixed_quotes"})):
            text = self.random.choice(("", *BLANKS)) + text + self.random.choice(("", *BLANKS))
        return text

    def quote(self, text, is_text):
        if "quote_all" in self.quirks or ("quote_text" in self.quirks and is_text) or any(c in text for c in '"\t\n,') or \
                ("mixed_quotes" in self.quirks and self.random.random() < 0.3):
            text = '"' + text.replace('"', '""') + '"'
        if "blanks_around_quotes" in self.quirks:
            text = self.random.choice(("", " ", "\t")) + text + self.random.choice(("", "  "))
        return text

    def records(self):
        """The lines as lists of texts, header first."""
        draw = self.random
        header = [*self.names, self.label]
        lines = [[self.quote(self.cell(r, c), isinstance(value, str)) for c, value in enumerate(row)]
                 for r, row in enumerate(self.rows)]
        if "numeric_header" in self.quirks:
            first = draw.choice((0, 1, 2001))
            header = [str(first + c) for c in range(len(header))]
            self.names, self.label = header[:-1], header[-1]
        names = [self.quote(name, True) for name in header]
        flags = draw.choice(FLAGS)
        extra = {"index_column": ("id", lambda i: str(i + 1)),
                 "unix_time": ("time", lambda i: str(1700000000 + 60 * i)),
                 "falling_time": ("stamp", lambda i: str(1700009000 - 60 * i)),
                 "nameless_index": ("", str),
                 "time_in_ms": ("t", lambda i: str(1700000000000 + 1000 * (i // 2))),
                 "shuffled_index": ("", lambda i: str((i * 97 + 3) % len(lines))),
                 "patient_id": ("patient_id", lambda i: str(10000 + i * 7919 % 88001)),
                 "empty_column": ("note", lambda i: ""),
                 "true_false_column": ("on", lambda i: flags[i % 3 == 0]),
                 "two_texts": ("sex", lambda i: ("Male", "Female")[i % 3 == 0]),
                 "date_column": ("day", lambda i: f"2024-03-{i % 28 + 1:02} 12:00:00"),
                 "constant_column": ("fixed", lambda i: "3"),
                 "text_column": ("site", lambda i: "north" if i % 3 else "south")}
        for quirk, (name, cell) in extra.items():
            if quirk in self.quirks:
                names.insert(0, self.quote(name, True))
                for i, line in enumerate(lines):
                    line.insert(0, self.quote(cell(i), True))
        if "label_first" in self.quirks:
            names.insert(0, names.pop())
            for line in lines:
                line.insert(0, line.pop())
        if "units_row" in self.quirks:
            lines.insert(0, [draw.choice(("degC", "m/s", "[-]"))] * len(names))
        if "total_row" in self.quirks:
            sums = [f"{sum(row[c] or 0 for row in self.rows):.4f}" for c in range(len(self.names))]
            lines.append([*[""] * (len(names) - len(sums) - 1), *sums, "Total"])
        if "units_of_label" in self.quirks:
            lines.insert(0, [*[""] * (len(names) - 1), "label"])
        if "other_case_header" in self.quirks:
            lines.insert(len(lines) // 2, [name.upper() for name in names])
        if "repeated_header" in self.quirks:
            lines.insert(len(lines) // 2, list(names))
        if "ragged_line" in self.quirks:
            lines[len(lines) // 3] = lines[len(lines) // 3][:-1]
        if "trailing_commas" in self.quirks:
            lines = [[*line, ""] for line in lines]
        if "row_names" in self.quirks:
            lines = [[str(i + 1), *line] for i, line in enumerate(lines)]
        if "quoted_blanks" in self.quirks:
            lines[1][0] = '" ' + lines[1][0].strip('"') + '"'
        return lines if "no_header" in self.quirks else [names, *lines]

    def bytes(self):
        comma = ";" if self.quirks & {"semicolons", "decimal_commas"} else "\t" if "tabs" in self.quirks else ","
        comma += " " if "pad_after_comma" in self.quirks else ""
        end = "\r\n" if "crlf" in self.quirks else "\r" if "cr" in self.quirks else "\n"
        text = end.join(comma.join(line) for line in self.records()) + end
        if "sep_line" in self.quirks:
            text = "sep=," + end + text
        if "title" in self.quirks:
            text = "Readings of March" + end + text
        if "comment_line" in self.quirks:
            text = "# logger 12" + end + text
        if "empty_lines_at_end" in self.quirks:
            text += end + end
        if "no_last_newline" in self.quirks:
            text = text[:-len(end)]
        if self.quirks & {"latin1_label", "latin1_name"}:
            return text.encode("latin-1", "replace")
        if "utf16" in self.quirks:
            return text.encode("utf-16")
        return (b"\xef\xbb\xbf" if "bom" in self.quirks else b"") + text.encode()

    # --- Meaning

    @property
    def refusable(self):
        return bool(self.quirks & set(REFUSABLE))

    def column(self, name):
        """Values of a feature, by its name or, where the file has none, by its number."""
        if name == "on":
            return [float(i % 3 != 0) for i in range(len(self.rows))]
        index = self.names.index(name) if name in self.names else int(name)
        return [row[index] for row in self.rows]

    def labels(self):
        return [row[-1] for row in self.rows]


def close(a, b):
    return math.isclose(a, b, rel_tol=2e-5, abs_tol=2e-4)
