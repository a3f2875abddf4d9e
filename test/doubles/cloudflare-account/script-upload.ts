import * as z from "zod";
import type { Received } from "../loopback.ts";
import { type Metadata, Refused } from "./account.ts";

/** The multipart body of an uploaded Worker: `metadata` as JSON, and a part for each module. */

const Uploaded = z.looseObject({
  main_module: z.string(),
  compatibility_date: z.iso.date(),
  compatibility_flags: z.array(z.string()).optional(),
  bindings: z.array(z.looseObject({ type: z.string(), name: z.string() })),
  migrations: z
    .strictObject({ new_tag: z.string(), old_tag: z.string().optional(), steps: z.array(z.looseObject({})).min(1) })
    .optional(),
  keep_bindings: z.array(z.string()).optional(),
});

const MAX_BYTES = 64 * 1024 * 1024;

export async function uploadedScript({
  body,
  headers,
  url,
}: Received): Promise<{ metadata: Metadata; modules: string[] }> {
  if (url.searchParams.get("bindings_inherit") !== "strict") throw new Refused(400, 10_001, "bindings_inherit");
  const type = headers["content-type"] ?? "";
  if (!type.startsWith("multipart/form-data")) throw new Refused(415, 10_415, `content type ${type}`);
  if (body.length > MAX_BYTES) throw new Refused(413, 10_027, "Your Worker exceeded the size limit");
  const form = await new Response(new Uint8Array(body), { headers: { "content-type": type } }).formData();
  const text = form.get("metadata");
  const parsed = Uploaded.safeParse(JSON.parse(typeof text === "string" ? text : ((await text?.text()) ?? "")));
  if (!parsed.success) throw new Refused(400, 10_001, z.prettifyError(parsed.error));
  const modules = [...form.keys()].filter((name) => name !== "metadata");
  if (!modules.includes(parsed.data.main_module)) throw new Refused(400, 10_021, "No such module: main_module");
  const classes = parsed.data.bindings.filter((each) => each.type === "durable_object_namespace");
  if (classes.some((each) => typeof each["class_name"] !== "string")) throw new Refused(400, 10_021, "class_name");
  return { metadata: parsed.data as Metadata, modules };
}
