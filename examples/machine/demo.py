# SPDX-License-Identifier: MIT
"""demo.sh BUILD OUT: records the whole machine into OUT/machine.nettrace while the shop of BUILD,
redis and a .NET program run under load, and prints the hottest functions of each. Then it records
every wait and system call of the shop into OUT/slow.nettrace, explains the slowest request, and
writes a page that shows the trace, OUT/slow.html."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "shop"))
import drive  # noqa: E402

SECONDS = 5
SECONDS_OF_SHOP = 2
SHOWN = 3


def missing(what, reason):
    """Say that a program does not take part."""
    print(f"  without {what}: {reason}", flush=True)


def redis_server(out):
    """Return a path of redis-server. Debian's redis-tools has the program under another name, and
    starts no service."""
    found = shutil.which("redis-server")
    tool = shutil.which("redis-check-rdb")
    if found or not tool:
        return found
    link = os.path.join(out, "redis-server")
    with contextlib.suppress(FileExistsError):
        os.symlink(tool, link)
    return link


@contextlib.contextmanager
def redis(out):
    """Run a server and a client that loads it. Yield the name of its process, or None."""
    server, client = redis_server(out), shutil.which("redis-benchmark")
    if not server or not client:
        missing("redis", "redis-tools is not installed")
        yield None
        return
    # A socket's path has at most 107 bytes, and `out` may be long.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "redis")
        command = [server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        with drive.running(command, stdout=subprocess.DEVNULL) as process:
            drive.wait_for(lambda: os.path.exists(path), "redis", [process])
            load = [client, "-s", path, "-q", "-l", "-t", "set,get", "-P", "16"]
            with drive.running(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                yield os.path.basename(server)


def primes(out):
    """Return the .NET program, which is built unless it was before; None: there is no SDK."""
    program = os.path.join(out, "primes", "Primes")
    if os.path.exists(program):
        return program
    if not shutil.which("dotnet") or not subprocess.run(
            ["dotnet", "--list-sdks"], stdout=subprocess.PIPE, check=False).stdout:
        missing(".NET", "its SDK is not installed")
        return None
    quiet = {"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}
    done = subprocess.run(
        ["dotnet", "build", os.path.join(FOLDER, "Primes"), "--configuration", "Release",
         "--output", os.path.dirname(program), "--disable-build-servers",
         f"-p:BaseIntermediateOutputPath={os.path.abspath(out)}/primes-obj/",
         "-p:UseSharedCompilation=false"],
        env={**os.environ, **quiet}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise drive.Failure(f"dotnet build failed:\n{done.stdout}")
    return program


@contextlib.contextmanager
def dotnet(out):
    """Run a .NET program, which writes the names of its functions. Yield its name, or None."""
    program = primes(out)
    if not program:
        yield None
        return
    environment = {**os.environ, "DOTNET_PerfMapEnabled": "1"}
    with drive.running([program], env=environment) as process:
        try:
            yield os.path.basename(program)
        finally:
            for name in f"perf-{process.pid}.map", f"perfinfo-{process.pid}.map":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join("/tmp", name))


def record(tool, trace, shop, seconds, *options):
    """Record while the shop serves requests."""
    command = [tool, "record", "--force", "-o", trace, *options]
    with open(f"{trace}.log", "w+", encoding="utf-8") as log, \
            drive.running(command, stderr=log) as recorder:
        shop.wait_for_sessions(1, [recorder])
        rate = drive.load(shop.url, seconds)
        status = drive.interrupt(recorder)
        log.seek(0)
        said = log.read().strip()
        if status != 0:
            raise drive.Failure(f"ringpipe record failed:\n{said}")
    print(f"\n{rate:,.0f} requests a second\n{said}\n")


def print_hottest(summary, names):
    """Print the hottest functions of the programs. Return those of which none has a name."""
    unnamed = []
    print(f"{'PROGRAM':<16}{'SAMPLES':>9}  HOTTEST FUNCTIONS")
    for name in names:
        rows = [row for row in summary["hot_functions"] if row["process"] == name]
        known = [row for row in rows if row["function"]]
        print(f"{name:<16}{sum(row['samples'] for row in rows):>9,}  " +
              "\n                           ".join(
                  f"{row['samples']:>6,}  {row['function']}" for row in known[:SHOWN]))
        if not known:
            unnamed.append(name)
    return unnamed


def demo(build, out):
    tool = os.path.join(build, "src/tools/ringpipe/ringpipe")
    trace = os.path.join(out, "machine.nettrace")
    if os.geteuid() != 0:
        print("The second part records the whole machine, which requires root: "
              "sudo scripts/demo machine")
        return
    print(f"ringpipe records the whole machine for {SECONDS} s, with the shop, redis and a .NET "
          "program under load …", flush=True)
    with drive.shop(os.path.join(build, "examples/shop/shop")) as shop, \
            redis(out) as redis_name, dotnet(out) as dotnet_name:
        record(tool, trace, shop, SECONDS)
    summary = drive.report(tool, trace)
    names = [name for name in ("shop", redis_name, dotnet_name) if name]
    unnamed = print_hottest(summary, names)
    counts = drive.report_counts(summary)
    print(f"\n{sum(counts.values()):,} events of the shop are in the same trace, "
          f"{summary['lost']:,} lost in all.\n"
          f"\nLook closer:  {tool} report {trace}\n{trace}")
    if unnamed:
        raise drive.Failure(f"no function of {', '.join(unnamed)} has a name")
    if not sum(counts.values()):
        raise drive.Failure("the trace has no event of the shop")


def demo_of_requests(build, out):
    tool = os.path.join(build, "src/tools/ringpipe/ringpipe")
    trace = os.path.join(out, "slow.nettrace")
    if os.geteuid() != 0:
        return
    print(f"\nringpipe records every wait and system call of the shop for {SECONDS_OF_SHOP} s, and "
          "explains its slowest request …", flush=True)
    with drive.shop(os.path.join(build, "examples/shop/shop")) as shop:
        record(tool, trace, shop, SECONDS_OF_SHOP, "-p", str(shop.pid), "--profile", "all",
               "--off-cpu", "0")
    subprocess.run([tool, "explain", trace, "--span", "Shop-Http/request"], check=True)
    page = os.path.join(out, "slow.html")
    viewed = subprocess.run([tool, "view", trace, "--html", page, "--force"], text=True,
                            stderr=subprocess.PIPE)
    if viewed.returncode == 0:
        print(f"\nThe same in a page for a browser: {page}")
    else:
        missing("a page for a browser", viewed.stderr.strip())
    print(f"\nLook closer:  {tool} report {trace} spans\n{trace}")


def main():
    if len(sys.argv) != 3:
        print("usage: demo.sh BUILD-DIRECTORY OUTPUT-DIRECTORY", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        os.makedirs(sys.argv[2], exist_ok=True)
        demo(sys.argv[1], sys.argv[2])
        demo_of_requests(sys.argv[1], sys.argv[2])
    except (drive.Failure, OSError, subprocess.CalledProcessError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
