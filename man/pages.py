#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A manual page of section 3 for each public function, from its declaration in the headers.

usage: pages.py --list HEADERS
       pages.py HEADERS OUTPUT

The comment before a declaration is the page's source. Its first sentence is the summary. Lines
`@parameter: text`, which a tab continues, and the parts `Context:` and `Return:` become sections.
Other lines after a tab are literal text, and lines after a dash a list. A comment before several
declarations describes all of them.
"""
import glob
import os
import re
import sys
import textwrap

# A function of a separate library has neither RP_PUBLIC nor `static inline`.
FUNCTION = re.compile(r"^(?:RP_PUBLIC |static inline |(?=int rp_))([^;{(]*?)(\w+)"
                      r"\(((?:[^()]|\([^()]*\))*)\)"
                      r"(?:\s*__attribute__\(\([^\n]*\)\))?(?:;|\n\{.*?^\}$)",
                      re.MULTILINE | re.DOTALL)


class Function:
    def __init__(self, header, result, name, parameters, comment):
        self.header, self.name = header, name
        self.result = " ".join(result.split())
        self.parameters = [" ".join(parameter.split())
                           for parameter in re.split(r",(?![^(]*\))", parameters)]
        self.comment = comment

    def names(self):
        """The names of the parameters, that of a callback's type included."""
        found = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w*\])?$", text) for text in self.parameters]
        return [match[1] or match[2] for match in found if match[2] != "void"]


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
    """The functions of the headers, except private ones, whose names end with an underscore."""
    for path in sorted(glob.glob("*.h", root_dir=headers) +
                       glob.glob("sinks/*.h", root_dir=headers)):
        for function in functions_of(os.path.join(headers, path), path):
            if not function.name.endswith("_"):
                yield function


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


def capitalized(lines):
    """A section's lines, beginning as a sentence unless a name comes first."""
    name = lines and re.match(r"`|\w*_|\w+\(", lines[0])
    return [lines[0][:1].upper() + lines[0][1:], *lines[1:]] if lines and not name else lines


def render_parameters(parameters):
    out = [".Bl -tag -width Ds"]
    for names, text in parameters:
        out += [".It " + " , ".join(f"Fa {name}" for name in names), *inline(text)]
    return out + [".El"]


VALUE = re.compile(r"((?:-E\w+|\d)(?:, -E\w+| and -E\w+)*)(?:[:,]? +(.*))?$", re.DOTALL)
NEXT_VALUE = re.compile(r"; (?=-E[A-Z0-9]|\d[;:,.]|\d (?:with|when|at|after) |or |what |errors )")
# Values that mean the same everywhere, where a header has nothing to add.
MEANINGS = {"0": "success", "-ENOMEM": "there is not enough memory",
            "-EAGAIN": "a thread cannot be created"}


def render_value(item):
    """One item of a list of results: its values and their cause."""
    match = VALUE.match(item)
    if not match:
        return [".It other", *inline(re.sub(r"^or ", "", item))]
    values, text = match.groups()
    if text:
        return [f".It {escape(values)}", *inline(text)]
    return [line for value in re.split(", | and ", values)
            for line in (f".It {escape(value)}", MEANINGS.get(value)) if line]


def render_returns(lines):
    """Values that are separated by semicolons as a list of them; sentences after it as text."""
    text = " ".join(line.strip() for line in lines if line)
    items = NEXT_VALUE.split(text)
    if len(items) < 2:
        return render(capitalized(lines))
    items[-1], after = re.match(r"(.*?)(?:\.(?: (?=[A-Z])|$)|$)(.*)", items[-1], re.DOTALL).groups()
    out = []
    if not VALUE.match(items[0]):
        out += [*inline(capitalized(items[:1])[0] + ". On failure:")]
        del items[0]
    out.append(".Bl -tag -width Er")
    for item in items:
        out += render_value(item)
    return out + [".El", *([".Pp", *inline(after)] if after else [])]


def split_sections(function):
    """{"": description, "Parameters": [(names, text)], "Context": …, "Return": …}"""
    sections, current = {"": [], "Parameters": []}, [""]
    for line in comment_lines(function.comment):
        parameter = re.match(r"(@\w+(?:, @\w+)*):\s*(.*)", line)
        if parameter:
            names = re.findall(r"\w+", parameter[1])
            unknown = set(names) - set(function.names())
            if unknown:
                raise SystemExit(f"{function.name} has no parameter {min(unknown)}")
            sections["Parameters"].append((names, parameter[2]))
            current = ["Parameters"]
            continue
        if current == ["Parameters"] and line.startswith("\t"):
            names, text = sections["Parameters"].pop()
            sections["Parameters"].append((names, f"{text} {line.strip()}"))
            continue
        if current == ["Parameters"]:
            current = [""]
        for piece in re.split(r"(?<=[.;]) (?=(?:Return|Context|Context, Return): )", line):
            match = re.match(r"(Context, Return|Context and return|Context|Return):\s*(.*)", piece)
            if match:
                current = [name.capitalize() for name in re.split(", | and ", match[1])]
                piece = match[2]
            for name in current:
                sections.setdefault(name, []).append(piece)
    return sections


def summary_of(text):
    text = re.sub(r" \([^()]*: [^()]*\)", "", text).replace("`", "")
    first = re.split(r"(?<=[\w)])[.:;](?:\s|$)", text, maxsplit=1)[0]
    first = re.sub(r"\s+", " ", first).strip()
    return first[:1].lower() + first[1:]


def library_of(function):
    name = "libringpipe-host-test" if function.header == "host_test.h" else "libringpipe"
    return f"{name}, \\-l{name[3:]}"


def page(function, names, date):
    sections = split_sections(function)
    description = " ".join(line.strip() for line in sections[""] if line)
    out = [".\\\" SPDX-License-Identifier: MIT", f".\\\" Made by pages.py from {function.header}.",
           f".Dd {date}", f".Dt {function.name.upper()} 3", ".Os Linux", ".Sh NAME",
           f".Nm {function.name}", f".Nd {escape(summary_of(description))}", ".Sh LIBRARY",
           "ringpipe", f".Pq {library_of(function)}", ".Sh SYNOPSIS",
           f".In ringpipe/{function.header}", f".Ft {function.result}",
           # A parameter has no space that groff could widen to justify the line.
           ".na", f".Fo {function.name}"]
    # groff puts a comma after each; a callback's own parameters are thus parts that it may break.
    out += [f'.Fa "{part}"' for parameter in function.parameters for part in parameter.split(", ")]
    out += [".Fc", ".ad", ".Sh DESCRIPTION", *render(sections[""])]
    if sections["Parameters"]:
        out += [".Sh PARAMETERS", *render_parameters(sections["Parameters"])]
    if "Context" in sections:
        out += [".Sh CONTEXT", *render(capitalized(sections["Context"]))]
    if "Return" in sections:
        out += [".Sh RETURN VALUES", *render_returns(sections["Return"])]
    elif function.result == "void":
        out += [".Sh RETURN VALUES", "The function returns nothing."]
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
