// SPDX-License-Identifier: MIT
//
// Measures how fast TraceEvent reads a trace: its source alone, with no parser but the one that
// every source has, and a handler that reads each event's time, thread and id. Each line on
// standard input is a path; the program prints the number of events and the processor time per
// event, in nanoseconds.

using System.Diagnostics;
using Microsoft.Diagnostics.Tracing;

while (Console.ReadLine() is { } path)
{
	using var process = Process.GetCurrentProcess();
	var begun = process.TotalProcessorTime;
	long events = 0;
	double sum = 0;

	using (var source = new EventPipeEventSource(path))
	{
		source.AllEvents += data =>
		{
			events++;
			sum += data.TimeStampRelativeMSec + data.ThreadID + (int)data.ID;
		};
		source.Process();
	}
	process.Refresh();
	var used = process.TotalProcessorTime - begun;
	Console.WriteLine($"{events} {used.TotalNanoseconds / Math.Max(1, events):F3} {sum > 0}");
	Console.Out.Flush();
}
