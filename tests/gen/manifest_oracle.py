# SPDX-License-Identifier: MIT
"""Reads ETW manifests with Python's own XML parser, invents a value for each field of each event,
and states how the value is written in C and which bytes the payload has. It shares no code with
ringpipe gen."""
import random
import re
import struct
import uuid
import xml.etree.ElementTree as ElementTree

EVENTS = "{http://schemas.microsoft.com/win/2004/08/events}"
OPCODES = {"win:Info": 0, "win:Start": 1, "win:Stop": 2, "win:DC_Start": 3, "win:DC_Stop": 4,
           "win:Extension": 5, "win:Reply": 6, "win:Resume": 7, "win:Suspend": 8, "win:Send": 9,
           "win:Receive": 240}
LEVELS = {"win:LogAlways": 0, "win:Critical": 1, "win:Error": 2, "win:Warning": 3,
          "win:Informational": 4, "win:Verbose": 5}
# The format of each integer for struct, and its type in C.
NUMBERS = {"win:Int8": ("b", "int8_t"), "win:UInt8": ("B", "uint8_t"),
           "win:Int16": ("h", "int16_t"), "win:UInt16": ("H", "uint16_t"),
           "win:Int32": ("i", "int32_t"), "win:UInt32": ("I", "uint32_t"),
           "win:HexInt32": ("I", "uint32_t"), "win:Int64": ("q", "int64_t"),
           "win:UInt64": ("Q", "uint64_t"), "win:HexInt64": ("Q", "uint64_t"),
           "win:SizeT": ("Q", "uint64_t")}
EPOCH_1601 = 116444736000000000


class Field:
    """A field or a struct of a template."""

    def __init__(self, element):
        self.name = element.get("name")
        self.type = element.get("inType", "struct")
        self.count, self.length = element.get("count"), element.get("length")
        self.members = fields_of(element) if self.type == "struct" else []


def fields_of(element):
    return [Field(each) for each in element if each.tag in (EVENTS + "data", EVENTS + "struct")]


class Event:
    """An event with its numbers, and the values of its fields."""

    def __init__(self, provider, element, tables):
        self.provider = provider.get("name")
        self.id, self.version = int(element.get("value")), int(element.get("version", 0))
        self.level = tables["levels"][element.get("level")] if element.get("level") else 0
        opcode, task = element.get("opcode"), element.get("task")
        opcodes = tables["opcodes"]
        self.opcode = opcodes.get((task, opcode), opcodes.get((None, opcode))) if opcode else 0
        self.keywords = 0
        for keyword in element.get("keywords", "").split():
            self.keywords |= tables["keywords"][keyword]
        prefix = re.sub("_PROVIDER$", "", provider.get("symbol").upper()).lower()
        self.function = f"{prefix}_{element.get('symbol')}"
        self.prefix, self.symbol = prefix, element.get("symbol")
        template = element.get("template")
        self.template, self.fields = template, tables["templates"][template] if template else []
        self.random = random.Random(f"{self.provider} {self.id} {self.version}")
        self.values = {}
        for field in self.fields:
            self.values[field.name] = self.invent(field, self.values, self.fields)

    def invent(self, field, earlier, siblings):
        """Return a value; a list for an array, a dict for a struct."""
        if field.count and field.count != "1":
            return [self.invent_one(field, earlier, siblings)
                    for _ in range(self.extent(field.count, earlier))]
        return self.invent_one(field, earlier, siblings)

    @staticmethod
    def extent(text, earlier):
        return int(text, 0) if text[0].isdigit() else earlier[text]

    def text(self, alphabet, size=None):
        size = self.random.randrange(12) if size is None else size
        return "".join(self.random.choice(alphabet) for _ in range(size))

    def invent_one(self, field, earlier, siblings):
        if field.type == "struct":
            values = {}
            for member in field.members:
                values[member.name] = self.invent(member, values, field.members)
            return values
        if field.type in NUMBERS:
            # Counts and lengths stay small.
            if any(field.name in (other.count, other.length) for other in siblings):
                return self.random.randrange(5)
            size = struct.calcsize(NUMBERS[field.type][0])
            return struct.unpack("<" + NUMBERS[field.type][0], self.random.randbytes(size))[0]
        size = self.extent(field.length, earlier) if field.length else None
        invent = {
            "win:Boolean": lambda: self.random.random() < 0.5,
            "win:Float": lambda: self.random.randrange(-999, 999) / 8,
            "win:Double": lambda: self.random.randrange(-99999, 99999) / 64,
            "win:GUID": lambda: uuid.UUID(bytes=self.random.randbytes(16)),
            "win:Pointer": lambda: self.random.randrange(1 << 47),
            "win:UnicodeString": lambda: self.text("abcXYZ 019_é\u65e5", size),
            "win:AnsiString": lambda: self.text("abcXYZ 019_", size),
            "win:FILETIME": lambda: self.random.randrange(-10 ** 18, 2 * 10 ** 18),
            "win:Binary": lambda: self.random.randbytes(size),
            "win:SYSTEMTIME": lambda: self.random.randbytes(16),
            "win:SID": lambda: bytes([1, 2]) + self.random.randbytes(14),
            "win:CountedUnicodeString": lambda: self.text("abcXYZ 019_é\u65e5"),
            "win:CountedAnsiString": lambda: self.text("abcXYZ 019_"),
            "win:CountedBinary": lambda: self.random.randbytes(self.random.randrange(9)),
        }
        return invent[field.type]()

    def payload(self):
        return b"".join(encode(field, self.values[field.name]) for field in self.fields)

    def call(self, function=None):
        """Return statements in C that write the event, and the call of a function with its fields,
        by default of the one that writes it."""
        code = Code()
        arguments = [argument for field in self.fields
                     for argument in code.argument(field, self.values[field.name], self)]
        return code.lines, f"{function or self.function}({', '.join(arguments)})"


def encode(field, value):
    """Return the bytes of a value, or of all elements of an array."""
    if isinstance(value, list):
        return b"".join(encode(field, each) for each in value)
    if field.type == "struct":
        return b"".join(encode(member, value[member.name]) for member in field.members)
    if field.type in NUMBERS:
        return struct.pack("<" + NUMBERS[field.type][0], value)
    nul = b"" if field.length else b"\0"
    return {
        "win:Boolean": lambda: struct.pack("<I", value),
        "win:Float": lambda: struct.pack("<f", value),
        "win:Double": lambda: struct.pack("<d", value),
        "win:GUID": lambda: value.bytes_le,
        "win:Pointer": lambda: struct.pack("<Q", value),
        "win:UnicodeString": lambda: value.encode("utf-16-le") + 2 * nul,
        "win:AnsiString": lambda: value.encode() + nul,
        "win:FILETIME": lambda: struct.pack("<q", value // 100 + EPOCH_1601),
        "win:CountedUnicodeString":
            lambda: struct.pack("<H", 2 * len(value)) + value.encode("utf-16-le"),
        "win:CountedAnsiString": lambda: struct.pack("<H", len(value)) + value.encode(),
        "win:CountedBinary": lambda: struct.pack("<H", len(value)) + value,
    }.get(field.type, lambda: value)()


class Code:
    """The arguments of one call, with the variables that they need."""

    def __init__(self):
        self.lines, self.count = [], 0

    def variable(self, kind, value):
        self.count += 1
        self.lines.append(f"static const {kind} v{self.count}[] = {{ {value} }};")
        return f"v{self.count}"

    def array(self, kind, values):
        return self.variable(kind, ", ".join(values)) if values else "NULL"

    def data(self, value):
        return self.array("uint8_t", [str(byte) for byte in value])

    def guid(self, value):
        return self.variable("struct rp_guid", f"{{ {{ {', '.join(map(str, value.bytes))} }} }}")

    @staticmethod
    def number(field, value):
        kind = NUMBERS[field.type][1]
        if value == -1 << 63:
            return "INT64_MIN"
        return f"{value}{'ull' if kind == 'uint64_t' else 'll' if kind == 'int64_t' else ''}"

    @staticmethod
    def literal(value, prefix=""):
        text = "".join(f"\\u{ord(each):04x}" if ord(each) > 126 else each for each in value)
        return f'{prefix}"{text}"'

    def one(self, field, value):
        """Return the argument for a single value."""
        if field.type in NUMBERS:
            return self.number(field, value)
        return {
            "win:Boolean": lambda: "true" if value else "false",
            "win:Float": lambda: f"{value}f",
            "win:Double": lambda: str(value),
            "win:GUID": lambda: self.guid(value),
            "win:Pointer": lambda: f"(const void *){value:#x}",
            "win:UnicodeString": lambda: self.literal(value, "u"),
            "win:CountedUnicodeString": lambda: self.literal(value, "u"),
            "win:AnsiString": lambda: self.literal(value),
            "win:CountedAnsiString": lambda: self.literal(value),
            "win:FILETIME": lambda: f"{value}ll",
        }.get(field.type, lambda: self.data(value))()

    def many(self, field, values, event):
        if field.type == "struct":
            rows = ["{ " + ", ".join(argument for member in field.members for argument in
                                     self.argument(member, value[member.name], event)) + " }"
                    for value in values]
            return self.array(f"struct {event.prefix}_{event.template}_{field.name}", rows)
        if field.type == "win:SYSTEMTIME":
            return self.data(b"".join(values))
        kind = {"win:Boolean": "bool", "win:Float": "float", "win:Double": "double",
                "win:Pointer": "void *", "win:UnicodeString": "rp_char16 *const",
                "win:AnsiString": "char *const", "win:FILETIME": "int64_t",
                "win:GUID": "struct rp_guid"}.get(field.type)
        if field.type == "win:GUID":
            return self.array(kind, ["{ { " + ", ".join(map(str, value.bytes)) + " } }"
                                     for value in values])
        if field.type == "win:Pointer":
            # The elements are pointers to const.
            return self.array("void *const", [f"(const void *){value:#x}" for value in values]) \
                if values else "NULL"
        return self.array(kind or NUMBERS[field.type][1],
                          [self.one(field, value) for value in values])

    def argument(self, field, value, event):
        if field.type == "win:CountedBinary":
            return [self.data(value), str(len(value))]
        if field.type == "struct" and not isinstance(value, list):
            return [self.many(field, [value], event)]
        if isinstance(value, list):
            return [self.many(field, value, event)]
        return [self.one(field, value)]


def tables_of(provider):
    def rows(section, row):
        return provider.iterfind(f"{EVENTS}{section}/{EVENTS}{row}")

    opcodes = {(None, name): value for name, value in OPCODES.items()}
    for opcode in rows("opcodes", "opcode"):
        opcodes[(None, opcode.get("name"))] = int(opcode.get("value"), 0)
    for task in rows("tasks", "task"):
        for opcode in task.iterfind(f"{EVENTS}opcodes/{EVENTS}opcode"):
            opcodes[(task.get("name"), opcode.get("name"))] = int(opcode.get("value"), 0)
    levels = dict(LEVELS)
    levels.update((level.get("name"), int(level.get("value"), 0))
                  for level in rows("levels", "level"))
    return {
        "opcodes": opcodes, "levels": levels,
        "keywords": {row.get("name"): int(row.get("mask"), 0)
                     for row in rows("keywords", "keyword")},
        "templates": {row.get("tid"): fields_of(row) for row in rows("templates", "template")},
    }


def read(path):
    """Return the events of all providers, in the order of the file."""
    events = []
    for provider in ElementTree.parse(path).getroot().iter(EVENTS + "provider"):
        tables = tables_of(provider)
        events += [Event(provider, element, tables)
                   for element in provider.iterfind(f"{EVENTS}events/{EVENTS}event")]
    return events


def program(header, events):
    """Return a program in C that writes each event once, and exits with the number of failures."""
    lines = [f'#include "{header}"', "#include <stddef.h>", ""]
    for number, event in enumerate(events):
        declarations, call = event.call()
        lines += [f"static int fire{number}(void)", "{", *(f"\t{line}" for line in declarations),
                  f"\treturn !{event.function}_enabled() || {call} != 0;", "}", ""]
    lines += ["int main(void)", "{", "\tint failures = 0;", "",
              *(f"\tfailures += fire{number}();" for number in range(len(events))),
              "\treturn failures > 255 ? 255 : failures;", "}", ""]
    return "\n".join(lines)


def component(events):
    """Return a component in C whose fire_all() writes each event once and returns how many of them
    were off. Each provider has an entry, PREFIX_start(). With STUB there are none."""
    lines = ["#ifdef STUB", "#include STUB", "#else", "#include COMPONENT"]
    for prefix in sorted({event.prefix for event in events}):
        lines += [f"extern \"C\" int {prefix}_start(const struct rp_component_host *host, "
                  "struct rp_component *component);",
                  f"int {prefix}_start(const struct rp_component_host *host, "
                  "struct rp_component *component)",
                  "{", f"\treturn {prefix}_component_init(host, component);", "}"]
    lines += ["#endif", ""]
    for number, event in enumerate(events):
        name = event.prefix.upper()
        declarations, call = event.call(f"{name}_FIRE_{event.symbol}")
        lines += [f"static int fire{number}(void)", "{", *(f"\t{line}" for line in declarations),
                  f"\t{call};", f"\treturn !{name}_ENABLED_{event.symbol}();", "}", ""]
    lines += ["extern \"C\" int fire_all(void);", "int fire_all(void)", "{", "\tint off = 0;", "",
              *(f"\toff += fire{number}();" for number in range(len(events))), "\treturn off;",
              "}", ""]
    text = "\n".join(lines)
    return '#ifdef __cplusplus\n#define FUNCTION extern "C"\n#else\n#define FUNCTION extern\n' \
           "#endif\n" + text.replace('extern "C" int', "FUNCTION int")


def component_host(header, events):
    """Return a host in C that attaches the providers of its argument, a component, and exits with
    what fire_all() of the component returns."""
    prefixes = sorted({event.prefix for event in events})
    lines = [f'#include "{header}"', "#include <dlfcn.h>", "#include <stdint.h>", "",
             "static struct rp_component_link *attach(void *handle, const char *entry,",
             "\tstruct rp_provider *provider, const void *events)", "{",
             "\tstruct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;",
             "\tstruct rp_component_link *link = NULL;", "", "\toptions.provider = provider;",
             "\toptions.events = events;",
             "\treturn rp_component_attach((rp_component_entry)(uintptr_t)dlsym(handle, entry),",
             "\t\t&options, &link) == 0 ? link : NULL;", "}", "",
             "int main(int argc, char **argv)", "{",
             f"\tstruct rp_component_link *links[{len(prefixes)}];",
             "\tvoid *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;",
             "\tint off;", "", "\tif (!handle)", "\t\treturn 255;"]
    for number, prefix in enumerate(prefixes):
        lines += [f'\tlinks[{number}] = attach(handle, "{prefix}_start", {prefix}_provider(),',
                  f"\t\t&{prefix}_component_host_events);", f"\tif (!links[{number}])",
                  "\t\treturn 254;"]
    lines += ['\toff = ((int (*)(void))(uintptr_t)dlsym(handle, "fire_all"))();',
              f"\tfor (int i = 0; i < {len(prefixes)}; i++)", "\t\trp_component_detach(links[i]);",
              "\tdlclose(handle);", "\treturn off > 253 ? 253 : off;", "}", ""]
    return "\n".join(lines)
