// SPDX-License-Identifier: MIT
//
// Every public call of Microsoft.Diagnostics.NETCore.Client on a process, as JSON.
//
//	ClientCalls PID DIRECTORY PROVIDER		on a process that runs
//	ClientCalls --start DIRECTORY PROVIDER PROGRAM…	on one that it starts, suspended
//
// One line for each call, {"call": signature, "result": what it gave, "error": class and message},
// and at the end {"missing": [the library's public calls that were not made]}. Traces and dumps go
// to files of DIRECTORY. Exit: 0; 2 for bad usage.

using System.Diagnostics;
using System.Diagnostics.Tracing;
using System.Reflection;
using System.Text.Encodings.Web;
using System.Text.Json;
using Microsoft.Diagnostics.NETCore.Client;
using Configuration = Microsoft.Diagnostics.NETCore.Client.EventPipeSessionConfiguration;
using None = System.Threading.CancellationToken;
using Providers = System.Collections.Generic.IEnumerable<
	Microsoft.Diagnostics.NETCore.Client.EventPipeProvider>;
using Session = Microsoft.Diagnostics.NETCore.Client.EventPipeSession;
using Starting =
	System.Threading.Tasks.Task<Microsoft.Diagnostics.NETCore.Client.EventPipeSession>;

static class Calls
{
	static readonly JsonSerializerOptions Plain = new()
	{
		Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
	};
	static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);
	const int Enough = 4000;	// bytes of a trace: its header and some events
	const BindingFlags Public = BindingFlags.Public | BindingFlags.Instance |
		BindingFlags.Static | BindingFlags.DeclaredOnly;
	static readonly HashSet<string> Made = [];
	static string directory = "";
	static EventPipeProvider provider = new("", EventLevel.Verbose);

	// The parts of the library that talk to a process.
	static readonly Type[] Talking = [
		typeof(DiagnosticsClient), typeof(Session), typeof(DiagnosticsClientConnector),
	];

	static string Signature(MethodInfo method) =>
		method.DeclaringType!.Name + " " + method.ToString();

	static void Say(object row) => Console.WriteLine(JsonSerializer.Serialize(row, Plain));

	// Makes a call, waits for it if it is a task, and prints the result.
	static object? Make(Delegate call, params object?[] arguments)
	{
		Made.Add(Signature(call.Method));
		try
		{
			var result = call.DynamicInvoke(arguments);
			if (result is Task task)
			{
				if (!task.Wait(Patience))
					throw new TimeoutException();
				result = task.GetType().GetProperty("Result")?.GetValue(task);
			}
			Say(new { call = Signature(call.Method), result = Describe(result) });
			return result;
		}
		catch (Exception refusal)
		{
			while (refusal is TargetInvocationException or AggregateException)
				refusal = refusal.InnerException!;
			Say(new
			{
				call = Signature(call.Method),
				error = refusal.GetType().Name,
				message = refusal.Message,
			});
			return null;
		}
	}

	static object? Describe(object? result) => result switch
	{
		null or string or bool => result,
		Dictionary<string, string> or IEnumerable<int> => result,
		_ => result.GetType().Name,
	};

	static void Mark(Type type, string name) =>
		Made.UnionWith(type.GetMethods().Where(m => m.Name == name).Select(Signature));

	// Reads a session's stream into a file until the stream ends.
	static Task Save(Session session, string name)
	{
		Mark(typeof(Session), "get_EventStream");
		var file = File.Create(Path.Combine(directory, name));
		return session.EventStream.CopyToAsync(file).ContinueWith(_ => file.Dispose());
	}

	static void Trace(object? started, string name, bool asynchronously)
	{
		if (started is not Session session)
			return;
		var copy = Save(session, name);
		// The stop is answered only after the stream has ended, which requires a reader.
		if (asynchronously)
			Make(session.StopAsync, None.None);
		else
			Make(session.Stop);
		if (!copy.Wait(Patience))
			throw new TimeoutException(name);
		Make(session.Dispose);
	}

	static void Sessions(DiagnosticsClient client)
	{
		EventPipeProvider[] several = [provider];
		var rundown = new Configuration(several, 16, true, true);
		var keyword = new Configuration(several, 16, 0x10L, false);

		Trace(Make((Func<Providers, bool, int, Session>)client.StartEventPipeSession,
			several, true, 16), "several.nettrace", false);
		Trace(Make((Func<EventPipeProvider, bool, int, Session>)
			client.StartEventPipeSession, provider, false, 16), "one.nettrace", true);
		Trace(Make((Func<Configuration, Session>)client.StartEventPipeSession, rundown),
			"rundown.nettrace", false);
		Trace(Make((Func<Providers, bool, int, None, Starting>)
			client.StartEventPipeSessionAsync, several, true, 16, None.None),
			"several-async.nettrace", true);
		Trace(Make((Func<EventPipeProvider, bool, int, None, Starting>)
			client.StartEventPipeSessionAsync, provider, false, 16, None.None),
			"one-async.nettrace", false);
		Trace(Make((Func<Configuration, None, Starting>)
			client.StartEventPipeSessionAsync, keyword, None.None),
			"keyword-async.nettrace", true);
	}

	static void Dumps(DiagnosticsClient client)
	{
		string At(string name) => Path.Combine(directory, name);

		Make((Action<DumpType, string, bool>)client.WriteDump, DumpType.Normal,
			At("normal.core"), false);
		Make((Action<DumpType, string, WriteDumpFlags>)client.WriteDump,
			DumpType.WithHeap, At("heap.core"), WriteDumpFlags.LoggingEnabled);
		Make((Func<DumpType, string, bool, None, Task>)client.WriteDumpAsync,
			DumpType.Triage, At("triage.core"), true, None.None);
		Make((Func<DumpType, string, WriteDumpFlags, None, Task>)client.WriteDumpAsync,
			DumpType.Full, At("full.core"), WriteDumpFlags.None, None.None);
	}

	static void Startup(DiagnosticsClient client)
	{
		Make(client.SetEnvironmentVariable, "RP_CALLED", "yes");
		Make(client.SetStartupProfiler, Guid.NewGuid(), "/nonexistent.so");
		Make(client.ApplyStartupHook, "/nonexistent.dll");
		Make(client.ApplyStartupHookAsync, "/nonexistent.dll", None.None);
	}

	static void Rest(DiagnosticsClient client)
	{
		Make(client.GetProcessEnvironment);
		Make(client.EnablePerfMap, PerfMapType.PerfMap);
		Make(client.DisablePerfMap);
		Make(client.AttachProfiler, TimeSpan.FromSeconds(5), Guid.NewGuid(),
			"/nonexistent.so", new byte[] { 1 });
	}

	static void Everything(int pid)
	{
		var client = new DiagnosticsClient(pid);

		Make(DiagnosticsClient.GetPublishedProcesses);
		Startup(client);
		Rest(client);
		Sessions(client);
		Dumps(client);
		Make(client.ResumeRuntime);
		// Called on the process that is started: the other overload.
		Mark(typeof(DiagnosticsClientConnector), "FromDiagnosticPort");
		Mark(typeof(DiagnosticsClientConnector), "get_Instance");
		Mark(typeof(DiagnosticsClientConnector), "DisposeAsync");
		Say(new
		{
			missing = Talking.SelectMany(type => type.GetMethods(Public))
				.Select(Signature).Except(Made).ToArray(),
		});
	}

	static void Start(string[] command)
	{
		var port = Path.Combine(directory, "port");
		var start = new ProcessStartInfo(command[0], command[1..])
		{
			RedirectStandardInput = true,
			RedirectStandardOutput = true,
		};
		start.Environment["DOTNET_DiagnosticPorts"] = port;
		var patience = new CancellationTokenSource(Patience).Token;
		var waiting = DiagnosticsClientConnector.FromDiagnosticPort(port, patience);
		using var process = Process.Start(start)!;
		var connector = waiting.GetAwaiter().GetResult();
		var client = connector.Instance;

		Say(new { pid = process.Id });
		Startup(client);
		Make(client.GetProcessEnvironment);
		var session = Make((Func<EventPipeProvider, bool, int, Session>)
			client.StartEventPipeSession, provider, false, 16) as Session;
		Make(client.ResumeRuntime);
		var copy = Save(session!, "started.nettrace");
		var trace = new FileInfo(Path.Combine(directory, "started.nettrace"));
		SpinWait.SpinUntil(() =>
		{
			trace.Refresh();
			return trace.Length > Enough;
		}, Patience);
		// The process ends at the end of its input, and so does the stream.
		process.StandardInput.Close();
		process.WaitForExit();
		copy.Wait(Patience);
		Say(new { exit = process.ExitCode });
		connector.DisposeAsync().AsTask().Wait(Patience);
	}

	public static int Main(string[] args)
	{
		var starts = args.Length >= 4 && args[0] == "--start";

		if (!starts && (args.Length != 3 || !int.TryParse(args[0], out _)))
		{
			Console.Error.WriteLine("usage: ClientCalls PID DIRECTORY PROVIDER\n" +
				"       ClientCalls --start DIRECTORY PROVIDER PROGRAM…");
			return 2;
		}
		directory = args[1];
		provider = new EventPipeProvider(args[2], EventLevel.Verbose, -1);
		if (starts)
			Start(args[3..]);
		else
			Everything(int.Parse(args[0]));
		return 0;
	}
}
