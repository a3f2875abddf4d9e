import { createHash, randomUUID } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, renameSync, rmSync, statSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { basename } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Api, ApiError } from "./api.ts";
import { command, Failure, flag, InvalidUsage, JSON_OPTION, table, text, textOf } from "./command.ts";
import { ENVIRONMENT, type Server, serviceOf } from "./environment.ts";
import { beforeEnd } from "./signals.ts";

/** Snapshots of a whole deployment: docs/operate/backup.md. Files are streamed, so memory does not grow with them. */

export const snapshotSave = command({
  words: ["snapshot", "save"],
  summary: "store a snapshot of the deployment in a file",
  about: `Stores a sealed snapshot of the whole deployment, readable by the current user only, and prints its
digest in the form of sha256sum. FILE appears when the snapshot is whole. The token needs \`read\` and
\`sudo\` on sys/snapshot.`,
  args: [{ name: "FILE", help: "where to" }],
  options: { force: flag("replace FILE"), ...JSON_OPTION },
  notes: ENVIRONMENT,
  run: async ({ values, args: [file = ""] }, io) => {
    const server = serviceOf(io.env);
    if (existsSync(file) && !values.force) throw new InvalidUsage(`FILE: ${file} exists: --force replaces it`);
    // Another run may store the same file at this moment.
    const part = `${file}.${randomUUID().slice(0, 8)}.part`;
    const release = beforeEnd(() => rmSync(part, { force: true }), { hasTerminal: false });
    try {
      const response = await open(server, "GET", "sys/snapshot");
      if (response.statusCode !== 200)
        throw new ApiError(response.statusCode ?? 0, "GET sys/snapshot", await reasonOf(response));
      const { digest, through } = hashing();
      await pipeline(response, through, createWriteStream(part, { flags: "wx", mode: 0o600, flush: true }));
      // The end of a response without a length is not always visible: a whole file ends with its last frame.
      if (!response.complete) throw new Failure("the snapshot ends early");
      if (existsSync(file) && !values.force) throw new Failure(`${file} was made meanwhile: --force replaces it`);
      renameSync(part, file);
      const { bytes, sha256 } = digest();
      io.out(values.json ? JSON.stringify({ file, sha256, bytes }) : `${sha256}  ${file}`);
      return 0;
    } finally {
      rmSync(part, { force: true });
      release();
    }
  },
});

const EDGE_LIMIT =
  "the edge takes no body of this size: copy the file into the bucket of SNAPSHOT_BUCKET, and restore it with --object";

export const snapshotRestore = command({
  words: ["snapshot", "restore"],
  summary: "restore a snapshot into an empty deployment",
  about: `Restores a snapshot into an empty deployment with the same MASTER_KEY. Afterwards only the tokens of the
snapshot are valid. The token needs \`update\` and \`sudo\` on sys/snapshot.`,
  args: [{ name: "FILE", help: "a snapshot; none with --object", isOptional: true }],
  options: {
    object: text("NAME", "a snapshot in the bucket of the service, instead of a file"),
    sha256: text("DIGEST", "refuse a file with another digest"),
    ...JSON_OPTION,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [file] }, io) => {
    if (file === undefined && values.object === undefined) throw new InvalidUsage("FILE is missing");
    if (values.object !== undefined && (file !== undefined || values.sha256 !== undefined))
      throw new InvalidUsage("--object: the service reads the bucket; there is no FILE and no --sha256");
    const server = serviceOf(io.env);
    if (file !== undefined && !existsSync(file)) throw new InvalidUsage(`FILE: ${file} does not exist`);
    if (file !== undefined && !statSync(file).isFile()) throw new InvalidUsage(`FILE: ${file} is not a file`);
    if (file !== undefined && statSync(file).size === 0) throw new InvalidUsage(`FILE: ${file} is empty`);
    if (file !== undefined && values.sha256 !== undefined) await check(file, values.sha256);
    const query = values.object === undefined ? "" : `?${new URLSearchParams({ object: values.object })}`;
    const response = await open(server, "POST", `sys/snapshot${query}`, file);
    const answer = await bodyOf(response);
    const { statusCode = 0 } = response;
    if (statusCode !== 200) {
      // The service itself has no limit for a snapshot.
      const reason = reasonIn(answer) || (statusCode === 413 ? EDGE_LIMIT : "");
      throw new ApiError(statusCode, "POST sys/snapshot", reason);
    }
    const { data, warnings } = JSON.parse(answer);
    for (const warning of warnings ?? []) io.note(warning);
    if (values.json) io.out(JSON.stringify(data));
    else
      io.out(
        `restored ${Object.entries(data)
          .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
          .join(", ")}`,
      );
    return 0;
  },
});

export const snapshotList = command({
  words: ["snapshot", "list"],
  summary: "list the snapshots in the bucket",
  about: `Lists the snapshots in the bucket that is bound to the service. The token needs \`list\` and \`sudo\` on
sys/snapshot.`,
  options: JSON_OPTION,
  notes: ENVIRONMENT,
  run: async ({ values }, io) => {
    const data = (await new Api(serviceOf(io.env), 3).fields("sys/snapshot", { list: "true" })) ?? {};
    const names: string[] = data["keys"] ?? [];
    const rows = names.map((name) => ({ name, ...data["key_info"]?.[name] }));
    if (values.json) io.out(JSON.stringify(rows, null, 2));
    else if (rows.length === 0) io.note("The bucket has no snapshot.");
    else
      for (const line of table([
        ["name", "taken", "bytes"],
        ...rows.map(({ name, taken, bytes }) => [name, taken, String(bytes)]),
      ]))
        io.out(line);
    return 0;
  },
});

function hashing() {
  const hash = createHash("sha256");
  let bytes = 0;
  const through = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.length;
      done(null, chunk);
    },
  });
  return { through, digest: () => ({ bytes, sha256: hash.digest("hex") }) };
}

async function check(file: string, wanted: string): Promise<void> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  if (hash.digest("hex") !== wanted.toLowerCase()) throw new Failure(`${basename(file)} has another digest`);
}

const CONNECT_MS = 10_000;

/** Resolves with the response's head. Its time is limited to connect only: a restore is answered when it is complete. */
function open(server: Server, method: "GET" | "POST", path: string, file?: string): Promise<http.IncomingMessage> {
  const url = new URL(`v1/${path}`, server.address.href.replace(/\/?$/, "/"));
  const { request } = url.protocol === "https:" ? https : http;
  const length = file === undefined ? {} : { "Content-Length": statSync(file).size };
  let isConnected = false;
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method,
      headers: { "X-Vault-Token": server.token, "Content-Type": "application/octet-stream", ...length },
    });
    sent.on("response", resolve).on("error", (failure) => {
      reject(isConnected ? failure : new Failure(`${url.origin}: no answer: ${textOf(failure)}`));
    });
    sent.on("socket", (socket) => {
      // The way through a proxy is open before.
      isConnected = !socket.connecting;
      if (isConnected) return;
      const waiting = setTimeout(() => sent.destroy(new Error("no connection in time")), CONNECT_MS);
      socket
        .once("close", () => clearTimeout(waiting))
        .once("connect", () => {
          isConnected = true;
          clearTimeout(waiting);
        });
    });
    if (file === undefined) sent.end();
    // A refusal closes the connection while the file is sent; the response then counts.
    else pipeline(createReadStream(file), sent).catch(reject);
  });
}

async function bodyOf(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const reasonOf = async (response: http.IncomingMessage): Promise<string> => reasonIn(await bodyOf(response));

function reasonIn(body: string): string {
  try {
    return (JSON.parse(body).errors ?? []).join("; ").slice(0, 300);
  } catch {
    return "";
  }
}
