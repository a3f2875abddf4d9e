import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { JOIN_PATH, type JoinRequest, joinAnswer, TOKEN_SECONDS } from "@sallyport/agent-protocol";
import { SignJWT } from "jose";
import * as z from "zod";
import { Ending, EXIT } from "./exit.ts";
import { readIfThere, replaceFile } from "./files.ts";
import { textOf } from "./log.ts";
import { postJson, type Transport } from "./session/transport.ts";

const KEY_FILE = "identity.key";
const NODE_FILE = "node.json";
const EPOCH_FILE = "epoch";
const OTHERS_READ = 0o077;
const JOIN_TIMEOUT_MS = 15_000;

const node = z.object({ nodeId: z.uuid(), audience: z.string().min(1) });
/** The identity of a joined node. */
export type Node = z.infer<typeof node>;

/**
 * The node's Ed25519 key, generated at the first start.
 * @throws Ending when others could read it, or when it is missing although the node has joined
 */
export async function loadKey(stateDir: string): Promise<KeyObject> {
  const path = join(stateDir, KEY_FILE);
  const pem = await readIfThere(path);
  if (pem === undefined) {
    if ((await loadNode(stateDir)) !== undefined)
      throw new Ending(
        EXIT.unusable,
        `${path} is missing: put it back, or remove ${join(stateDir, NODE_FILE)} and join again.`,
      );
    const { privateKey } = generateKeyPairSync("ed25519");
    await replaceFile(path, privateKey.export({ type: "pkcs8", format: "pem" }).toString());
    return privateKey;
  }
  const found = await lstat(path);
  if (!found.isFile()) throw new Ending(EXIT.unusable, `${path} is not a regular file.`);
  if ((found.mode & OTHERS_READ) !== 0)
    throw new Ending(
      EXIT.unusable,
      `${path} is open to other users: remove it and ${NODE_FILE} and join again, or chmod 600 it if no other user has read it.`,
    );
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {
    // Reported below; OpenSSL's message would not help the operator.
  }
  throw new Ending(EXIT.unusable, `${path} does not hold an Ed25519 key.`);
}

/** Undefined before the node has joined. */
export async function loadNode(stateDir: string): Promise<Node | undefined> {
  const path = join(stateDir, NODE_FILE);
  const content = await readIfThere(path);
  if (content === undefined) return undefined;
  try {
    return node.parse(JSON.parse(content));
  } catch {
    throw new Ending(EXIT.unusable, `${path} is damaged: remove it and join again.`);
  }
}

/** The raw 32 bytes as base64. */
function publicKeyOf(key: KeyObject): string {
  const { x = "" } = createPublicKey(key).export({ format: "jwk" });
  return Buffer.from(x, "base64url").toString("base64");
}

/** `later`: the service is unavailable or busy, another attempt may succeed. */
type Joined = { type: "joined"; node: Node } | { type: "later"; message: string };

/**
 * Exchanges a join token for a node id and stores it. Repeating it with the same key is safe.
 * @throws Ending when the service refuses the token
 */
export async function joinService(
  { service, name, stateDir }: { service: string; name: string; stateDir: string },
  key: KeyObject,
  token: string,
  transport: Transport,
): Promise<Joined> {
  const request: JoinRequest = { Token: token, PublicKey: publicKeyOf(key), Name: name };
  let status: number;
  let body: string;
  try {
    ({ status, body } = await postJson(service + JOIN_PATH, request, transport, JOIN_TIMEOUT_MS));
  } catch (failure) {
    return { type: "later", message: textOf(failure) };
  }
  // 407 is of a proxy, whose operator may correct it.
  if (status >= 500 || (status >= 300 && status < 400) || status === 407 || status === 429 || status === 408)
    return { type: "later", message: `the service answered ${status}` };
  if (status !== 200) {
    const said = body
      .replaceAll(token, "[REDACTED]")
      .replace(/\p{Cc}+/gu, " ")
      .trim()
      .slice(0, 300);
    throw new Ending(EXIT.notJoined, `The service refused the join token (${status}): ${said}`);
  }
  const answer = joinAnswer.safeParse(jsonOf(body));
  if (!answer.success)
    throw new Ending(EXIT.notJoined, "The service answered the join with something else than a node id.");
  const joined: Node = { nodeId: answer.data.NodeID, audience: answer.data.Service };
  await replaceFile(join(stateDir, NODE_FILE), `${JSON.stringify(joined)}\n`);
  return { type: "joined", node: joined };
}

/** A single-use connect token, valid for a minute. @param skewMs offset of the service's clock */
export function connectToken(key: KeyObject, { nodeId, audience }: Node, skewMs = 0): Promise<string> {
  const issued = Math.floor((Date.now() + skewMs) / 1000);
  return new SignJWT()
    .setProtectedHeader({ alg: "EdDSA" })
    .setIssuer(nodeId)
    .setSubject(nodeId)
    .setAudience(audience)
    .setIssuedAt(issued)
    .setExpirationTime(issued + TOKEN_SECONDS)
    .setJti(randomUUID())
    .sign(key);
}

/** Increments the number of agent starts on this state directory. @returns the new number */
export async function nextEpoch(stateDir: string): Promise<number> {
  const path = join(stateDir, EPOCH_FILE);
  const last = Number((await readIfThere(path)) ?? 0);
  if (!Number.isSafeInteger(last) || last < 0)
    throw new Ending(EXIT.unusable, `${path} is damaged: it must hold a number.`);
  await replaceFile(path, `${last + 1}\n`);
  return last + 1;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
