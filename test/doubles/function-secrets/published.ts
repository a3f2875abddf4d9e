import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of Supabase's published document about secrets of functions (2026-08):
 * https://github.com/supabase/cli/blob/HEAD/packages/api/src/generated/openapi.json. It gives refusals no body.
 */

const text = { type: "string" };
const refusals = { 401: {}, 403: {}, 429: {}, 500: {} };
const name = { type: "string", maxLength: 256, pattern: "^(?!SUPABASE_).*" };
const secret = { type: "object", properties: { name, value: { ...text, maxLength: 24_576 } } };
const shown = { type: "object", properties: { name: text, value: text, updated_at: text } };

export const published: PublishedApi = {
  base: "/v1",
  operations: {
    "GET /projects/{ref}/secrets": {
      answers: { 200: { type: "array", items: { ...shown, required: ["name", "value"] } }, ...refusals },
    },
    "POST /projects/{ref}/secrets": {
      request: { type: "array", items: { ...secret, required: ["name", "value"] } },
      answers: { 201: null, ...refusals },
    },
    "DELETE /projects/{ref}/secrets": {
      request: { type: "array", items: text },
      answers: { 200: null, ...refusals },
    },
  },
};
