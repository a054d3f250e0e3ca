// SPDX-License-Identifier: MIT
//
// A .NET program that shares its process with libringpipe.
//
//	Beside		writes numbered events of EventSource Beside until its standard input ends
//	Beside N	writes N of them
//	Beside FILE	loads the library FILE first
//
// Prints its pid before the first event.

using System.Diagnostics.Tracing;
using System.Runtime.InteropServices;

[EventSource(Name = "Beside")]
sealed class Source : EventSource
{
	[Event(1)]
	public void Tick(int serial) => WriteEvent(1, serial);
}

static class Program
{
	public static void Main(string[] args)
	{
		using var source = new Source();
		var most = int.MaxValue;
		var serial = 0;

		if (args.Length > 0 && !int.TryParse(args[0], out most))
		{
			NativeLibrary.Load(args[0]);
			most = int.MaxValue;
		}
		Console.WriteLine(Environment.ProcessId);
		if (most < int.MaxValue)
		{
			while (serial < most)
				source.Tick(serial++);
			return;
		}
		var end = Task.Run(Console.In.ReadToEnd);
		while (!end.Wait(5))
			source.Tick(serial++);
	}
}
