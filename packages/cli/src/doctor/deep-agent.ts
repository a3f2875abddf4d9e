import { generateKeyPairSync, type KeyObject, randomUUID, sign } from "node:crypto";
import * as z from "zod";
import { upgraded } from "./socket.ts";
import type { Trial } from "./trial.ts";

/** Joins as the agent of a node, opens its connection, and removes the node. */

const SUBPROTOCOL = "sallyport-agent.v1";
const TOKEN_SECONDS = 60;
const PATIENCE_MS = 15_000;

const Joined = z.object({ NodeID: z.uuid(), Service: z.string() });

export async function deepAgent({ api, address, name, undo }: Trial): Promise<string> {
  const { text } = await api.call("POST", "agent/tokens", { body: JSON.stringify({ Name: name, TTL: "10m" }) });
  const { Token, AccessorID } = JSON.parse(text) as { Token: string; AccessorID: string };
  undo(() => api.call("DELETE", `agent/token/${AccessorID}`, { accept: [404] }));
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const { x = "" } = publicKey.export({ format: "jwk" });
  const joined = await api.call("POST", "agent/join", {
    body: JSON.stringify({ Token, PublicKey: Buffer.from(x, "base64url").toString("base64"), Name: name }),
  });
  const { NodeID, Service } = Joined.parse(JSON.parse(joined.text));
  undo(() => api.call("DELETE", `agent/${NodeID}`, { accept: [404] }));
  const url = new URL("v1/agent/connect", address.href.replace(/\/?$/, "/"));
  const headers = {
    Authorization: `Bearer ${connectToken(privateKey, NodeID, Service)}`,
    "Sec-WebSocket-Protocol": SUBPROTOCOL,
  };
  const [socket] = await upgraded(url, headers, PATIENCE_MS);
  socket.on("error", () => undefined);
  socket.destroy();
  await api.call("GET", `agent/${NodeID}`);
  return "a node joined, and its connection opened";
}

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A JWT (RFC 7519) signed with Ed25519 (RFC 8037). */
function connectToken(key: KeyObject, node: string, audience: string): string {
  const iat = Math.floor(Date.now() / 1000);
  const claims = { iss: node, sub: node, aud: audience, iat, exp: iat + TOKEN_SECONDS, jti: randomUUID() };
  const signed = `${part({ alg: "EdDSA" })}.${part(claims)}`;
  return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
}
