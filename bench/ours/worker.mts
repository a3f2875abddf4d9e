/**
 * The service as it is, and one more path for the bench: appending to the event log without the cost of what usually makes
 * events, so that delivery can be measured by itself.
 */
import { eventLog } from "../../src/objects/stubs.ts";
import type { Bell } from "../../src/work/doorbell.ts";
import service from "../../src/worker.ts";

export * from "../../src/worker.ts";

export default {
  ...service,
  async fetch(request, env, exec) {
    if (!request.url.includes("/bench/append")) return service.fetch(request, env, exec);
    const { searchParams } = new URL(request.url);
    const count = Number(searchParams.get("count"));
    const first = Number(searchParams.get("seq"));
    const event = JSON.parse(await request.text());
    const lines = Array.from({ length: count }, (_, i) => ({ seq: first + i, events: [event] }));
    await eventLog(env).append("bench", lines);
    return new Response("{}", { headers: { "Content-Type": "application/json" } });
  },
} satisfies ExportedHandler<Env, Bell>;
