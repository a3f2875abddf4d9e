import { z } from "zod";
import { type Api, ApiError } from "../api.ts";
import { command, durationMsOf, Failure, text } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT, serviceOf } from "../environment.ts";
import { Kv, requestPath } from "./store.ts";

/** A link that shows a secret once: a wrapped read, whose token is in the fragment of the console's page. */

const MS_A_SECOND = 1000;
const DEFAULT_TTL = "24h";

const wrappedSchema = z.object({
  token: z.string(),
  accessor: z.string(),
  ttl: z.number(),
  creation_time: z.string(),
});

export const kvShare = command({
  words: ["kv", "share"],
  summary: "print a link that shows a secret once",
  about: `Prints a link to the console, which shows the values of the newest version to the first person who opens it,
without a login. The second one is told that it was opened before. The accessor ends the link early:
\`vault token revoke -accessor ACCESSOR\`.`,
  args: [{ name: "PATH", help: "mount and name, such as secret/app/db" }],
  options: { ttl: text("TIME", `how long the link lives, such as 1h (default ${DEFAULT_TTL})`), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const seconds = durationMsOf("ttl", values.ttl ?? DEFAULT_TTL) / MS_A_SECOND;
    const api = connect(values, io);
    const kv = new Kv(api);
    const place = await kv.secretAt(path);
    const wrapped = await wrap(api, requestPath(place, "data"), seconds);
    if (wrapped === null) throw new Failure(`${path}: ${await kv.whyNot(place)}`);
    const { token, accessor, ttl, creation_time } = wrapped;
    const ends = Math.round(Date.parse(creation_time) / MS_A_SECOND) + ttl;
    const url = new URL("ui/open", `${serviceOf(io.env).address.href.replace(/\/+$/, "")}/`);
    if (api.namespace !== "") url.searchParams.set("ns", api.namespace);
    url.hash = `${token}~${ends}`;
    const until = new Date(ends * MS_A_SECOND).toISOString().replace(".000Z", "Z");
    if (values.json) io.out(JSON.stringify({ url: url.href, accessor, expires_at: until }));
    else io.out(url.href);
    if (!values.json) io.note(`Opens once, until ${until}. Accessor ${accessor}.`);
    return 0;
  },
});

/** Null without the secret. @throws ApiError */
async function wrap(api: Api, path: string, seconds: number): Promise<z.infer<typeof wrappedSchema> | null> {
  try {
    const { text: answer } = await api.call("GET", path, { wrapSeconds: seconds });
    const { wrap_info } = z.object({ wrap_info: wrappedSchema.nullish() }).parse(JSON.parse(answer));
    return wrap_info ?? null;
  } catch (failure) {
    if (failure instanceof ApiError && failure.status === 404) return null;
    throw failure;
  }
}
