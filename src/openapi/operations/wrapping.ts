import * as z from "zod";
import { seconds, time } from "../../wire/shapes.ts";
import { data, group, warned } from "../operation.ts";

const Lookup = z.object({ creation_path: z.string(), creation_time: time, creation_ttl: seconds });
const token = "The wrapping token, if it is not the caller's token.";
const wrapped = warned("`wrap_info` of the new wrapping token; `data` is null.");

export const wrapping = group(
  "Wrapping",
  {},
  {
    "POST /sys/wrapping/wrap": {
      id: "wrap",
      summary: "Wrap a JSON object",
      description: "The whole body is wrapped, for 300 seconds unless `X-Orch-Wrap-TTL` says otherwise.",
      body: { fields: {} },
      answers: wrapped,
    },
    "POST /sys/wrapping/unwrap": {
      id: "unwrap",
      summary: "Unwrap a wrapped response",
      description:
        "The answer is that of the wrapped request. The wrapping token is the right; another token in the header needs `update` on this path.",
      body: { fields: { token } },
      answers: {
        200: {
          kind: "json",
          description: "The envelope of the wrapped request.",
          schema: z.record(z.string(), z.unknown()),
        },
      },
    },
    "GET /sys/wrapping/lookup": {
      id: "lookUpOwnWrapping",
      summary: "Look up the caller's wrapping token",
      answers: data("What it wraps.", Lookup),
    },
    "POST /sys/wrapping/lookup": {
      id: "lookUpWrapping",
      summary: "Look up a wrapping token",
      body: { fields: { token } },
      answers: data("What it wraps.", Lookup),
    },
    "POST /sys/wrapping/rewrap": {
      id: "rewrap",
      summary: "Rewrap a wrapped response",
      description: "With the original TTL. The earlier wrapping token ends.",
      body: { fields: { token } },
      answers: wrapped,
    },
  },
);
