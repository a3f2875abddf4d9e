import * as z from "zod";
import { crc32c } from "../../../lib/crc32c.ts";
import { memo } from "../../../lib/memo.ts";
import { unreadable } from "../../../providers/cloud-c-gcp/client.ts";
import type { CloudCConnection } from "../../../providers/cloud-c-gcp/connection.ts";
import { failure } from "../../../providers/outcome.ts";
import type { Reading } from "../destination-type.ts";
import { secretManager } from "./client.ts";

const pageSize = 100;

const schemas = memo(() => ({
  page: z.object({
    secrets: z.array(z.object({ name: z.string().regex(/\/secrets\/[A-Za-z0-9_-]{1,255}$/) })).default([]),
    nextPageToken: z.string().default(""),
  }),
  version: z.object({ payload: z.object({ data: z.base64().default(""), dataCrc32c: z.string().optional() }) }),
}));

/** Reads the secrets of a project (ListSecrets, AccessSecretVersion of `latest`). */
export const cloudCSmReading: Reading<CloudCConnection> = {
  async list(cursor, details, context) {
    const from = cursor === "" ? "" : `&pageToken=${encodeURIComponent(cursor)}`;
    const path = `secrets?pageSize=${pageSize}${from}`;
    const answer = await secretManager(details, context).call("ListSecrets", "GET", path);
    if (!answer.ok) return answer.outcome;
    const parsed = schemas().page.safeParse(answer.body);
    if (!parsed.success) return unreadable("ListSecrets", "external");
    const { secrets, nextPageToken } = parsed.data;
    const names = secrets.map(({ name }) => name.slice(name.lastIndexOf("/") + 1));
    return { outcome: "ok", names, next: nextPageToken || null };
  },

  async read(name, details, context) {
    const path = `secrets/${encodeURIComponent(name)}/versions/latest:access`;
    const answer = await secretManager(details, context).call("AccessSecretVersion", "GET", path);
    if (!answer.ok) {
      // A secret without a version, too.
      if (answer.status === "NOT_FOUND") return { outcome: "ok", content: null };
      if (answer.status !== "FAILED_PRECONDITION") return answer.outcome;
      return failure("client", "disabled", `The newest version of ${name} is disabled or destroyed.`);
    }
    const parsed = schemas().version.safeParse(answer.body);
    if (!parsed.success) return unreadable("AccessSecretVersion", "external");
    const { data, dataCrc32c } = parsed.data.payload;
    const bytes = Buffer.from(data, "base64");
    if (dataCrc32c !== undefined && dataCrc32c !== String(crc32c(bytes))) {
      return unreadable("AccessSecretVersion", "external");
    }
    const value = textOf(bytes);
    if (value !== null) return { outcome: "ok", content: { value } };
    return failure("client", "value_invalid", `The value of ${name} is binary, and not a text.`);
  },
};

/** The text of bytes in UTF-8, byte order mark included; null for other bytes. */
function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
