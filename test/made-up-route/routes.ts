import * as z from "zod";
import { envelope } from "../../src/routes/server/respond.ts";
import { secrets } from "../../src/routes/server/route.ts";

const GreetingBody = z.object({ name: z.string().min(1).max(64) });

/** A resource that no deployment has, added as docs/internals/add-a-route.md says. */
export const greetingRoutes = [
  secrets("POST /sys/greetings/:language", { body: GreetingBody }, async (call, { name }) =>
    envelope(call, { data: { text: `${call.params.language}: hello ${name}` } }),
  ),
];
