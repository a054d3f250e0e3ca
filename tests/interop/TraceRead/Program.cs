// SPDX-License-Identifier: MIT
//
// What TraceEvent makes of a .nettrace file, as JSON.
//
//	TraceRead FILE			one object: losses, threads, times, and each kind of event
//	TraceRead --dump FILE		one line for each event, then the object
//	TraceRead --clr FILE		likewise, but the fields of .NET's runtime are those of
//					the parsers for its providers
//	TraceRead --stacks FILE		the same by way of TraceLog, with stacks
//	TraceRead --cut FILE		likewise, of a trace that may lack its end
//	TraceRead --thread-time FILE	one line for each sample of PerfView's view Thread Time
//	TraceRead --collections FILE	one line for each garbage collection of .NET
//
// Exit: 0; 1 when TraceEvent refuses the file, with its reason on standard error; 2 for bad usage.

using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Nodes;
using Microsoft.Diagnostics.Symbols;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Analysis;
using Microsoft.Diagnostics.Tracing.Etlx;
using Microsoft.Diagnostics.Tracing.Parsers;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;
using Microsoft.Diagnostics.Tracing.Stacks;
using TraceLog = Microsoft.Diagnostics.Tracing.Etlx.TraceLog;

sealed class Kind
{
	public required JsonObject Head;
	public long Count;
	public readonly HashSet<int> Threads = [];
}

static class Reader
{
	static readonly JsonSerializerOptions Plain = new()
	{
		Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
	};
	static readonly TextWriter Out =
		new StreamWriter(Console.OpenStandardOutput(), bufferSize: 1 << 16);

	// By provider, id and version. TraceEvent shows a name followed by its opcode.
	static readonly Dictionary<(Guid, int, int), Kind> Kinds = [];
	static readonly HashSet<int> Threads = [];
	static long events;
	static double first = double.NaN, last = double.NaN;

	public static int Main(string[] args)
	{
		var path = args.Length > 0 ? args[^1] : "";
		var mode = args.Length == 2 ? args[0] : "";

		if (args.Length is < 1 or > 2 || path.StartsWith('-') ||
		    mode is not ("" or "--dump" or "--clr" or "--stacks" or "--cut" or
				 "--thread-time" or "--collections"))
		{
			Console.Error.WriteLine("usage: TraceRead [--dump|--clr|--stacks|--cut|" +
						"--thread-time|--collections] FILE");
			return 2;
		}
		try
		{
			if (mode == "--collections")
				ReportCollections(path);
			else if (mode == "--thread-time")
				OpenLog(path, new(), PrintThreadTime);
			else if (mode is "--stacks" or "--cut")
				OpenLog(path, new() { ContinueOnError = mode == "--cut" },
					PrintEvents);
			else
				ReadStream(path, mode is "--dump" or "--clr", mode == "--clr");
		}
		catch (Exception refusal)
		{
			Out.Flush();
			Console.Error.WriteLine(
				$"TraceRead: {path}: {refusal.GetType().Name}: {refusal.Message}");
			return 1;
		}
		finally
		{
			Out.Flush();
		}
		return 0;
	}

	static void ReadStream(string path, bool dump, bool clr)
	{
		using var source = new EventPipeEventSource(path);

		if (clr)
		{
			source.Clr.All += _ => { };
			new ClrRundownTraceEventParser(source).All += _ => { };
			new ClrPrivateTraceEventParser(source).All += _ => { };
		}

		// The dynamic parser decodes names only if it has a subscriber.
		source.Dynamic.All += _ => { };
		source.AllEvents += data =>
		{
			Count(data);
			if (dump)
				Print(Describe(data));
		};
		source.Process();
		Print(Summarise(source));
	}

	static void ReportCollections(string path)
	{
		using var source = new EventPipeEventSource(path);

		source.NeedLoadedDotNetRuntimes();
		source.Process();
		foreach (var process in source.Processes())
			foreach (var collection in process.LoadedDotNetRuntime()?.GC.GCs ?? [])
				Print(new JsonObject
				{
					["number"] = collection.Number,
					["generation"] = collection.Generation,
					["complete"] = collection.IsComplete,
					["type"] = collection.Type.ToString(),
					["reason"] = collection.Reason.ToString(),
					["pause_ms"] = collection.PauseDurationMSec,
				});
	}

	// TraceLog needs a separate file, which is deleted with its directory.
	static void OpenLog(string path, TraceLogOptions options, Action<TraceLog> read)
	{
		var scratch = Directory.CreateTempSubdirectory("TraceRead");

		try
		{
			var etlx = Path.Combine(scratch.FullName, "log.etlx");

			TraceLog.CreateFromEventPipeDataFile(path, etlx, options);
			using var log = new TraceLog(etlx);
			read(log);
		}
		finally
		{
			scratch.Delete(recursive: true);
		}
	}

	static void PrintEvents(TraceLog log)
	{
		foreach (var data in log.Events)
		{
			Count(data);
			var row = Describe(data);
			row["stack"] = Stack(data.CallStack());
			Print(row);
		}
		var summary = Summarise(log);
		summary["processes"] = Processes(log);
		Print(summary);
	}

	// The first frame is CPU_TIME or BLOCKED_TIME.
	static void PrintThreadTime(TraceLog log)
	{
		using var symbols = new SymbolReader(TextWriter.Null, "");
		var stacks = new MutableTraceEventStackSource(log);
#pragma warning disable CS0618	// Its interface may change.
		var times = new ThreadTimeStackComputer(log, symbols);
#pragma warning restore CS0618

		times.GenerateThreadTimeStacks(stacks);
		stacks.ForEach(sample =>
		{
			var (thread, frames) = ThreadStack(stacks, sample.StackIndex);
			Print(new JsonObject
			{
				["thread"] = thread,
				["time_ms"] = sample.TimeRelativeMSec,
				["duration_ms"] = sample.Metric,
				["frames"] = frames,
			});
		});
	}

	// The frame that ends a thread's stack has the thread's name.
	static (string, JsonArray) ThreadStack(StackSource stacks, StackSourceCallStackIndex at)
	{
		var frames = new JsonArray();

		for (; at != StackSourceCallStackIndex.Invalid; at = stacks.GetCallerIndex(at))
		{
			var name = stacks.GetFrameName(stacks.GetFrameIndex(at), false);
			if (name.StartsWith("Thread ("))
				return (name["Thread (".Length..name.IndexOf(')')], frames);
			frames.Add(name);
		}
		return ("", frames);
	}

	static void Print(JsonNode row) => Out.WriteLine(row.ToJsonString(Plain));

	static void Count(TraceEvent data)
	{
		var key = (data.ProviderGuid, (int)data.ID, data.Version);

		if (!Kinds.TryGetValue(key, out var kind))
			Kinds[key] = kind = new Kind { Head = DescribeKind(data) };
		kind.Count++;
		kind.Threads.Add(data.ThreadID);
		Threads.Add(data.ThreadID);
		if (events++ == 0)
			first = data.TimeStampRelativeMSec;
		last = data.TimeStampRelativeMSec;
	}

	static JsonObject DescribeKind(TraceEvent data) => new()
	{
		["provider"] = data.ProviderName,
		["provider_guid"] = data.ProviderGuid.ToString(),
		["id"] = (int)data.ID,
		["event"] = data.EventName,
		["version"] = data.Version,
		["level"] = (int)data.Level,
		["opcode"] = (int)data.Opcode,
		["keywords"] = (ulong)data.Keywords,
		["fields"] = new JsonArray([.. data.PayloadNames.Select(name => (JsonNode)name)]),
		["first"] = Payload(data),
	};

	static JsonObject Summarise(TraceEventDispatcher source) => Summarise(source.EventsLost,
		source.SessionStartTime, source.PointerSize, source.NumberOfProcessors);

	static JsonObject Summarise(TraceLog log) => Summarise(log.EventsLost, log.SessionStartTime,
		log.PointerSize, log.NumberOfProcessors);

	static JsonArray Processes(TraceLog log) => new([.. log.Processes.Select(process =>
		(JsonNode)new JsonObject
		{
			["process"] = process.ProcessID,
			["name"] = process.Name,
			["command_line"] = process.CommandLine,
			["events"] = process.EventsInProcess.Count(),
		})]);

	static JsonObject Summarise(int lost, DateTime start, int pointerSize,
				    int processors) => new()
	{
		["events"] = events,
		["events_lost"] = lost,
		["start_utc"] = start.ToUniversalTime().ToString("o"),
		["first_ms"] = Value(first),
		["last_ms"] = Value(last),
		["threads"] = Threads.Count,
		["pointer_bytes"] = pointerSize,
		["processors"] = processors,
		["kinds"] = new JsonArray([.. Kinds.Values.Select(kind =>
		{
			kind.Head["count"] = kind.Count;
			kind.Head["threads"] = kind.Threads.Count;
			return (JsonNode)kind.Head;
		})]),
	};

	static JsonObject Describe(TraceEvent data) => new()
	{
		["provider"] = data.ProviderName,
		["id"] = (int)data.ID,
		["version"] = data.Version,
		["parser"] = data.GetType().Name,
		["event"] = data.EventName,
		["time_ms"] = data.TimeStampRelativeMSec,
		["thread"] = data.ThreadID,
		["process"] = data.ProcessID,
		["process_name"] = data.ProcessName,
		["processor"] = data.ProcessorNumber,
		["activity"] = Id(data.ActivityID),
		["related_activity"] = Id(data.RelatedActivityID),
		["fields"] = Payload(data),
		["payload"] = Convert.ToHexStringLower(data.EventData()),
	};

	static JsonNode? Id(Guid id) => id == Guid.Empty ? null : (JsonNode)id.ToString();

	// TraceEvent replaces undecodable values by a text "<<<EXCEPTION_DURING_VALUE_LOOKUP …".
	static JsonObject Payload(TraceEvent data)
	{
		var fields = new JsonObject();

		for (var i = 0; i < data.PayloadNames.Length; i++)
			fields[data.PayloadNames[i]] = Value(data.PayloadValue(i));
		return fields;
	}

	static JsonNode? Value(object? value) => value switch
	{
		null => null,
		string text => text,
		char unit => unit.ToString(),
		bool truth => truth,
		sbyte or short or int or long => Convert.ToInt64(value),
		byte or ushort or uint or ulong => Convert.ToUInt64(value),
		float number => Number(number, number.ToString("R")),
		double number => Number(number, number.ToString("R")),
		Guid id => id.ToString(),
		DateTime time => time.ToUniversalTime().ToString("o"),
		Enum code => Convert.ToInt64(code),
		byte[] bytes => new JsonArray([.. bytes.Select(item => (JsonNode)(ulong)item)]),
		IDictionary<string, object> members => new JsonObject(members.Select(
			member => KeyValuePair.Create(member.Key, Value(member.Value)))),
		System.Collections.IEnumerable items =>
			new JsonArray([.. items.Cast<object>().Select(Value)]),
		nint address => (long)address,
		nuint address => (ulong)address,
		_ => new JsonObject { [value.GetType().Name] = value.ToString() },
	};

	// JSON has no NaN and no infinity: their names are written instead.
	static JsonNode Number(double number, string digits) =>
		double.IsFinite(number) ? JsonNode.Parse(digits)! : number.ToString();

	static JsonArray Stack(TraceCallStack? frame)
	{
		var frames = new JsonArray();

		for (; frame != null; frame = frame.Caller)
			frames.Add(new JsonObject
			{
				["address"] = (ulong)frame.CodeAddress.Address,
				["method"] = frame.CodeAddress.FullMethodName,
				["module"] = frame.CodeAddress.ModuleName,
			});
		return frames;
	}
}
