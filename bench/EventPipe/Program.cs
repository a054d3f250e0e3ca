// SPDX-License-Identifier: MIT
//
// Measures the time of .NET's EventPipe for an event of 32 bytes. Each line on standard input is a
// number of rounds; the program prints the time per event in each round, in nanoseconds.

using System.Diagnostics;
using System.Diagnostics.Tracing;
using System.Runtime.CompilerServices;

[EventSource(Name = "Bench-EventPipe")]
sealed unsafe class Source : EventSource
{
	public Source() : base(EventSourceSettings.EtwManifestEventFormat) {}

	[Event(1)]
	public void Four(long a, long b, long c, long d)
	{
		EventData* data = stackalloc EventData[4];

		data[0].DataPointer = (IntPtr)(&a);
		data[0].Size = 8;
		data[1].DataPointer = (IntPtr)(&b);
		data[1].Size = 8;
		data[2].DataPointer = (IntPtr)(&c);
		data[2].Size = 8;
		data[3].DataPointer = (IntPtr)(&d);
		data[3].Size = 8;
		WriteEventCore(1, 4, data);
	}
}

static class Program
{
	const int Events = 20000;
	static readonly Source source = new();

	// A separate method, so that the runtime recompiles it once it is hot.
	[MethodImpl(MethodImplOptions.NoInlining)]
	static void Write(int count)
	{
		for (var i = 0; i < count; i++)
		{
			if (source.IsEnabled())
				source.Four(i, i, i, i);
		}
	}

	static double Round()
	{
		var begun = Stopwatch.GetTimestamp();

		Write(Events);
		return (Stopwatch.GetTimestamp() - begun) * 1e9 / Stopwatch.Frequency / Events;
	}

	public static void Main()
	{
		Console.WriteLine(Environment.ProcessId);
		while (int.TryParse(Console.ReadLine(), out var rounds))
		{
			var took = new double[rounds];

			for (var i = 0; i < 60; i++)
			{
				Write(200);
				Thread.Sleep(5);
			}
			for (var i = 0; i < rounds; i++)
			{
				took[i] = Round();
				Thread.Sleep(20);	// its buffers are emptied by another thread
			}
			Console.WriteLine(string.Join(",", took));
		}
	}
}
