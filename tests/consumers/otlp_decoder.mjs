// SPDX-License-Identifier: MIT
// Reads lines of OTLP in JSON, and writes each as OpenTelemetry's own decoder understands it: the
// message is encoded in protocol buffers and decoded again. Unknown members disappear.
import { createInterface } from "node:readline";

import root from "@opentelemetry/otlp-transformer/build/src/generated/root.js";

const { TracesData } = root.opentelemetry.proto.trace.v1;
const ids = new Set(["traceId", "spanId", "parentSpanId"]);

// OTLP has ids in hexadecimal digits, where the usual JSON of protocol buffers has base64.
const withIds = (key, value) =>
	ids.has(key) ? Buffer.from(value, "hex").toString("base64") : value;

for await (const line of createInterface({ input: process.stdin })) {
	const given = JSON.parse(line, withIds);
	const message = TracesData.fromObject(given);
	const problem = TracesData.verify(message);

	if (problem)
		throw new Error(problem);
	const decoded = TracesData.decode(TracesData.encode(message).finish());
	const found = TracesData.toObject(decoded, { longs: String, bytes: String, json: true });

	console.log(JSON.stringify({ given, found }));
}
