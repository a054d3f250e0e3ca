#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A manual page of section 3 for each public function, from its declaration in the headers.

usage: pages.py --list HEADERS
       pages.py HEADERS OUTPUT

The comment before a declaration is the page's source. Its first sentence is the summary. The parts
`Context:` and `Return:` become sections, lines after a tab literal text, and lines after a dash a
list. A comment before several declarations describes all of them.
"""
import os
import re
import sys
import textwrap

FUNCTION = re.compile(r"^(?:RP_PUBLIC|static inline) ([^;{(]*?)(\w+)\(((?:[^()]|\([^()]*\))*)\)"
                      r"(?:\s*__attribute__\(\([^\n]*\)\))?(?:;|\n\{.*?^\}$)",
                      re.MULTILINE | re.DOTALL)


class Function:
    def __init__(self, header, result, name, parameters, comment):
        self.header, self.name = header, name
        self.result = " ".join(result.split())
        self.parameters = [" ".join(parameter.split())
                           for parameter in re.split(r",(?![^(]*\))", parameters)]
        self.comment = comment


def comment_lines(comment):
    body = re.sub(r"\s*\*/$", "", comment)
    lines = re.sub(r"^/\*", " *", body).split("\n")
    return [re.sub(r"^ \*(?: |(?=\t)|$)", "", line).rstrip() for line in lines]


def functions_of(path, header):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    end_before, comment = 0, None
    for match in FUNCTION.finditer(text):
        between = text[end_before:match.start()]
        comments = list(re.finditer(r"/\*.*?\*/", between, re.DOTALL))
        gap = between[comments[-1].end():] if comments else between
        # A declaration right after a comment, or after others that the comment belongs to.
        if comments and re.fullmatch(r"\s*(?:struct \w+;\s*)?", gap):
            comment = comments[-1].group()
        elif not re.fullmatch(r"\s*", between):
            comment = None
        if comment is None:
            raise SystemExit(f"{header}: {match[2]} has no comment")
        yield Function(header, match[1], match[2], match[3], comment)
        end_before = match.end()


def all_functions(headers):
    for name in sorted(os.listdir(headers)):
        if name.endswith(".h"):
            yield from functions_of(os.path.join(headers, name), name)


def escape(text):
    text = re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e"))
    return re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match[0]):04X}]", text)


def inline(text):
    """A paragraph's text as lines of mdoc: `code`, functions and constants have their macros."""
    lines, plain = [], []

    def flush():
        if plain:
            joined = " ".join(plain)
            lines.extend(escape(line) for line in
                         textwrap.wrap(joined, 95, break_long_words=False, break_on_hyphens=False))
            plain.clear()

    def macro(name, body, after):
        flush()
        lines.append(f".{name} {body}" + (" " + " ".join(after) if after else ""))

    for word in text.split():
        match = re.fullmatch(r"(\(?)(?:`([^`]+)`|(\w+)\(\)|(\w+)\((\d)\))([.,:;)]*)", word)
        if not match or match[1]:
            plain.append(word.replace("`", ""))
            continue
        after = list(match[6])
        if match[2]:
            macro("Fa" if re.fullmatch(r"[a-z_]+", match[2]) else "Ql", escape(match[2]), after)
        elif match[3]:
            macro("Fn", match[3], after)
        else:
            macro("Xr", f"{match[4]} {match[5]}", after)
    flush()
    return lines


def paragraphs(lines):
    """[kind, lines]: text, literal or list."""
    found = []
    for line in lines:
        if not line:
            found.append(["gap", []])
            continue
        kind = "literal" if line.startswith("\t") else \
            "list" if re.match(r"\s*- ", line) else \
            "list" if found and found[-1][0] == "list" and line.startswith("  ") else "text"
        if not found or found[-1][0] != kind:
            found.append([kind, []])
        found[-1][1].append(line)
    return [part for part in found if part[0] != "gap"]


def render(lines):
    out = []
    for kind, part in paragraphs(lines):
        if out:
            out.append(".Pp")
        if kind == "literal":
            if out:
                out.pop()
            out += [".Bd -literal -offset indent",
                    *(escape(line.replace("\t", "", 1).expandtabs()) for line in part), ".Ed"]
        elif kind == "list":
            if out:
                out.pop()
            items = re.split(r"(?:^|\n)\s*- ", "\n".join(part))[1:]
            out.append(".Bl -bullet -compact")
            for item in items:
                out += [".It", *inline(item)]
            out.append(".El")
        else:
            out += inline(" ".join(part))
    return out


VALUE = re.compile(r"((?:-E\w+|\d)(?:, -E\w+| and -E\w+)*)(?:[:,]? +(.*)|([.]?))$", re.DOTALL)


def render_returns(lines):
    """Values that are separated by semicolons as a list of them; what follows as text."""
    items = re.split(r"; (?=-E[A-Z]|\d[;:,.]|\d with |\d when |\d at |\d after )",
                     " ".join(line.strip() for line in lines if line))
    if len(items) < 2 or not all(VALUE.match(item) for item in items):
        return render(lines)
    out = [".Bl -tag -width Er"]
    for item in items:
        values, text, _ = VALUE.match(item).groups()
        text = (text or "").rstrip(";")
        out += [f".It {escape(values)}", *inline(text[:1].upper() + text[1:])]
    return out + [".El"]


def split_sections(lines):
    """{"": description, "Context": …, "Return": …}"""
    sections, current = {"": []}, ""
    for line in lines:
        for piece in re.split(r"(?<=[.;]) (?=(?:Return|Context|Context, Return): )", line):
            match = re.match(r"(Context, Return|Context and return|Context|Return):\s*(.*)", piece)
            if match:
                current = match[1]
                sections.setdefault(current, [])
                piece = match[2]
                piece = piece[:1].upper() + piece[1:]
            sections[current].append(piece)
    return sections


def summary_of(text):
    text = re.sub(r" \([^()]*: [^()]*\)", "", text)
    first = re.split(r"(?<=[\w)])[.:;](?:\s|$)", text, maxsplit=1)[0]
    first = re.sub(r"\s+", " ", first.replace("`", "")).strip()
    return first[:1].lower() + first[1:]


def page(function, names, date):
    sections = split_sections(comment_lines(function.comment))
    description = " ".join(line.strip() for line in sections[""] if line)
    out = [".\\\" SPDX-License-Identifier: MIT", f".\\\" Made by pages.py from {function.header}.",
           f".Dd {date}", f".Dt {function.name.upper()} 3", ".Os Linux", ".Sh NAME",
           f".Nm {function.name}", f".Nd {escape(summary_of(description))}", ".Sh LIBRARY",
           "ringpipe", ".Pq libringpipe, \\-lringpipe", ".Sh SYNOPSIS",
           f".In ringpipe/{function.header}", f".Ft {function.result}",
           # A parameter has no space that groff could widen to justify the line.
           ".na", f".Fo {function.name}"]
    # groff puts a comma after each; a callback's own parameters are thus parts that it may break.
    out += [f'.Fa "{part}"' for parameter in function.parameters for part in parameter.split(", ")]
    out += [".Fc", ".ad", ".Sh DESCRIPTION", *render(sections[""])]
    for key, title in (("Context", "CONTEXT"), ("Return", "RETURN VALUES"),
                       ("Context, Return", "CONTEXT AND RETURN VALUES"),
                       ("Context and return", "CONTEXT AND RETURN VALUES")):
        if key in sections:
            out += [f".Sh {title}",
                    *(render if key == "Context" else render_returns)(sections[key])]
    mentioned = set(re.findall(r"(\w+)\(\)", function.comment)) & names - {function.name}
    out += [".Sh SEE ALSO", *(f".Xr {name} 3 ," for name in sorted(mentioned)),
            ".Xr libringpipe 7"]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    if sys.argv[1] == "--list":
        print("\n".join(f"{function.name}.3" for function in all_functions(sys.argv[2])))
        return
    functions = list(all_functions(sys.argv[1]))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libringpipe.7"),
              encoding="utf-8") as file:
        date = re.search(r"^\.Dd (.*)$", file.read(), re.MULTILINE)[1]
    names = {function.name for function in functions}
    for function in functions:
        with open(os.path.join(sys.argv[2], function.name + ".3"), "w", encoding="utf-8") as file:
            file.write(page(function, names, date))


if __name__ == "__main__":
    main()
