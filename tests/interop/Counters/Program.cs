// SPDX-License-Identifier: MIT
//
// Counters of .NET, and a client of counters.
//
//	Counters publish
//		has what counters_twin.c has, and counts when it reads a line
//	Counters collect
//		makes garbage and collects it, each kind of collection again and again, until it
//		reads a line
//	Counters watch PID INTERVAL CLIENT
//		tells of the counters of a process, .NET's or not, what TraceEvent makes of them: a
//		line for each event, with the name, type and value of each field, until it reads a
//		line. INTERVAL is in seconds, CLIENT who it says it is.
//
// Both print a line when they are ready. Exit: 0; 2 for bad usage.

using System.Diagnostics.Metrics;
using System.Diagnostics.Tracing;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Nodes;
using Microsoft.Diagnostics.NETCore.Client;
using Microsoft.Diagnostics.Tracing;

[EventSource(Name = "Twin-Source")]
sealed class Source : EventSource
{
	readonly EventCounter spread;
	readonly IncrementingEventCounter done;
	readonly PollingCounter heat;
	readonly IncrementingPollingCounter asked;
	double total = 7;

	public Source()
	{
		spread = new("spread", this) { DisplayName = "Spread", DisplayUnits = "ms" };
		spread.AddMetadata("k", "v");
		spread.AddMetadata("k2", "v2");
		done = new("done", this) { DisplayName = "Things done", DisplayUnits = "things" };
		heat = new("heat", this, () => 36.6);
		asked = new("asked", this, () => total)
		{
			DisplayName = "Asked",
			DisplayRateTimeScale = TimeSpan.FromSeconds(90061),
		};
	}

	public void Count()
	{
		spread.WriteMetric(2.5);
		done.Increment(5);
		total = 77;
	}
}

static class Publisher
{
	static readonly Meter Twin = new("Twin-Meter"), Gone = new("Twin-Gone");
	static double total = 7, level = -3, tenth = 0.1;

	static readonly Func<double> Fail = () => throw new IOException();

	public static void Run()
	{
		var source = new Source();
		var done = Twin.CreateCounter<long>("done", "things", "Things done");
		var tagged = Twin.CreateCounter<long>("tagged");
		var pending = Twin.CreateUpDownCounter<long>("pending", null, "Pending");
		var heat = Twin.CreateGauge<double>("heat", "C");
		var spread = Twin.CreateHistogram<double>("spread", "ms");
		var taggedSpread = Twin.CreateHistogram<double>("tagged-spread");

		Gone.CreateCounter<long>("gone");
		Twin.CreateObservableCounter("asked", () => total);
		Twin.CreateObservableUpDownCounter("level", () => level);
		Twin.CreateObservableGauge("tenth", () => tenth);
		Twin.CreateObservableGauge("parts", () => new Measurement<double>[]
		{
			new(1, new KeyValuePair<string, object?>("part", "one")),
			new(2, new("part", "two"), new("and", "more")),
		});
		Twin.CreateObservableGauge("failing", Fail);
		double[] numbers = [1e-5, 1e-4, 123456789012345, 1e15, 1234567890123456.5, 1e16,
			90071992547409936, 1e17, 123456789012345678, 12345678901234567890.0,
			1.0 / 3, 0.1 + 0.2, -1e20, 1e100, -2.5e-7, 1.7976931348623157e308];
		for (var i = 0; i < numbers.Length; i++)
		{
			var number = numbers[i];

			Twin.CreateObservableGauge($"number-{i}", () => number);
		}

		Console.WriteLine(Environment.ProcessId);
		Console.ReadLine();
		source.Count();
		done.Add(5);
		tagged.Add(2, new KeyValuePair<string, object?>("side", "left"));
		tagged.Add(3, new("side", "Grüße"), new("b", "c"));
		pending.Add(-4);
		heat.Record(36.6);
		spread.Record(2.5);
		taggedSpread.Record(8, new KeyValuePair<string, object?>("side", "left"));
		total = 77;
		level = -4;
		tenth = 0.2;
		Gone.Dispose();
		new Meter("Twin-Late").CreateCounter<long>("late").Add(9);
		Console.WriteLine("counted");
		Console.ReadLine();
		source.Dispose();
	}
}

static class Garbage
{
	static readonly List<object> Kept = [];

	public static void Run()
	{
		var end = Task.Run(Console.ReadLine);

		Console.WriteLine(Environment.ProcessId);
		for (var i = 0; !end.IsCompleted; i++)
		{
			for (var j = 0; j < 1000; j++)
				Kept.Add(new byte[1000]);
			if (Kept.Count > 20000)
				Kept.Clear();
			if (i % 4 == 3)
				GC.Collect(2, GCCollectionMode.Default, blocking: false);
			else
				GC.Collect(i % 4, GCCollectionMode.Forced, blocking: true);
			Thread.Sleep(5);
		}
	}
}

static class Watcher
{
	static readonly JsonSerializerOptions Plain = new()
	{
		Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
	};
	const string Metrics = "System.Diagnostics.Metrics", Series = "EventCounterIntervalSec";

	static EventPipeProvider[] Providers(string interval, string client) => [
		new("Twin-Source", EventLevel.Informational, 0,
			new Dictionary<string, string> { [Series] = interval }),
		new(Metrics, EventLevel.Informational, 7, new Dictionary<string, string>
		{
			["SessionId"] = "SHARED",
			["ClientId"] = client,
			["Metrics"] = "Twin-Meter,Twin-Gone,Twin-Late",
			["RefreshInterval"] = interval,
			["MaxTimeSeries"] = "1000",
			["MaxHistograms"] = "10",
		}),
	];

	public static void Run(int pid, string interval, string client)
	{
		using var session = new DiagnosticsClient(pid).StartEventPipeSession(
			Providers(interval, client), requestRundown: false);
		using var source = new EventPipeEventSource(session.EventStream);
		var reader = new Thread(() => source.Process());

		// The dynamic parser decodes names only if it has a subscriber.
		source.Dynamic.All += _ => { };
		source.AllEvents += data => Console.WriteLine(Describe(data).ToJsonString(Plain));
		reader.Start();
		Console.ReadLine();
		session.Stop();
		reader.Join();
	}

	static JsonObject Describe(TraceEvent data) => new()
	{
		["provider"] = data.ProviderName,
		["event"] = data.EventName,
		["id"] = (int)data.ID,
		["version"] = data.Version,
		["level"] = (int)data.Level,
		["keywords"] = (long)data.Keywords,
		["opcode"] = (int)data.Opcode,
		["fields"] = new JsonArray([.. data.PayloadNames.Select(
			(name, i) => Field(name, data.PayloadValue(i)))]),
	};

	// [name, type, value]; the value of a struct is its fields.
	static JsonNode Field(string name, object? value) => new JsonArray(name, value switch
	{
		IDictionary<string, object> => "struct",
		_ => value?.GetType().Name,
	}, value switch
	{
		IDictionary<string, object> members => new JsonArray([.. members.Select(
			member => Field(member.Key, member.Value))]),
		int number => number,
		long number => number,
		float number => JsonNode.Parse(number.ToString("R")),
		double number when double.IsFinite(number) =>
			JsonNode.Parse(number.ToString("R")),
		DateTime time => time.ToUniversalTime().ToString("o"),
		_ => value?.ToString(),
	});
}

static class Program
{
	public static int Main(string[] args)
	{
		Console.SetOut(new StreamWriter(Console.OpenStandardOutput()) { AutoFlush = true });
		if (args is ["publish"])
			Publisher.Run();
		else if (args is ["collect"])
			Garbage.Run();
		else if (args is ["watch", _, _, _] && int.TryParse(args[1], out var pid))
			Watcher.Run(pid, args[2], args[3]);
		else
		{
			Console.Error.WriteLine(
				"usage: Counters publish | collect | watch PID INTERVAL CLIENT");
			return 2;
		}
		return 0;
	}
}
