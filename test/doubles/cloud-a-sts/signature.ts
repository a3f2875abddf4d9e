import { createHash, timingSafeEqual } from "node:crypto";
import { Sha256 } from "@aws-crypto/sha256-js";
import { SignatureV4 } from "@smithy/signature-v4";

/** A request as it arrived: header names in lower case, the body's bytes. */
export interface Received {
  method: string;
  /** Path and query. */
  target: string;
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  /** S3 takes the word UNSIGNED-PAYLOAD for the hash of a body. */
  isUnsignedAllowed?: boolean;
}

/** One access key the double knows. `sessionToken` and `expiresAt` (ms since the epoch) for assumed roles. */
export interface KnownKey {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  expiresAt?: number;
}

export interface Expected {
  service: string;
  regions: readonly string[];
  /** Milliseconds since the epoch. */
  now: number;
  find(accessKeyId: string): KnownKey | undefined;
}

/** `type` is Secrets Manager's name of the error; STS has its own names (`stsNames`). */
export type Verdict = { ok: true; key: KnownKey } | { ok: false; type: string; message: string };

const maxSkewMs = 5 * 60 * 1000;
const authorizationPattern =
  /^AWS4-HMAC-SHA256 Credential=([^/\s]+)\/(\d{8})\/([^/\s]+)\/([^/\s]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;

/**
 * Checks Signature Version 4 by signing the received request again with the vendor's own signer.
 * Stricter than the vendor: every x-amz-* header must be signed, and the scope must name an expected region.
 */
export async function verifySignature(request: Received, expected: Expected): Promise<Verdict> {
  const { headers } = request;
  const authorization = headers["authorization"];
  if (authorization === undefined) return bad("MissingAuthenticationTokenException", "Missing Authentication Token");
  const match = authorizationPattern.exec(authorization);
  const date = readDate(headers["x-amz-date"]);
  if (match === null || date === null) {
    return bad("IncompleteSignatureException", "Authorization or X-Amz-Date is malformed");
  }
  const [, accessKeyId = "", day = "", region = "", service = "", signedHeaders = "", signature = ""] = match;
  const key = expected.find(accessKeyId);
  const sentToken = headers["x-amz-security-token"];
  if (key === undefined || sentToken !== key.sessionToken) {
    return bad("UnrecognizedClientException", "The security token included in the request is invalid.");
  }
  if (key.expiresAt !== undefined && key.expiresAt <= expected.now) {
    return bad("ExpiredTokenException", "The security token included in the request is expired");
  }
  const scopeProblem = checkScope({ day, region, service }, headers["x-amz-date"] ?? "", expected);
  if (scopeProblem !== null) return bad("InvalidSignatureException", scopeProblem);
  if (Math.abs(date.getTime() - expected.now) > maxSkewMs) {
    return bad("InvalidSignatureException", `Signature expired: ${headers["x-amz-date"]} is not within 5 minutes`);
  }
  const names = signedHeaders.split(";");
  const unsigned = ["host", ...Object.keys(headers).filter((name) => name.startsWith("x-amz-"))].filter(
    (name) => !names.includes(name),
  );
  if (unsigned.length > 0 || names.join() !== [...new Set(names)].sort().join()) {
    return bad("InvalidSignatureException", `Signed headers must be sorted, unique and include ${unsigned.join()}`);
  }
  const hash = headers["x-amz-content-sha256"];
  const isUnsigned = request.isUnsignedAllowed === true && hash === "UNSIGNED-PAYLOAD";
  if (hash !== undefined && !isUnsigned && hash !== createHash("sha256").update(request.body).digest("hex")) {
    return bad("InvalidSignatureException", "X-Amz-Content-Sha256 is not the hash of the body");
  }
  const wanted = await sign(request, names, key, { service, region, date });
  if (wanted.length !== signature.length || !timingSafeEqual(Buffer.from(wanted), Buffer.from(signature))) {
    // The real service quotes its canonical string here, session token included; so does the double, as a lure.
    const quoted = JSON.stringify(Object.fromEntries(names.map((name) => [name, headers[name]])));
    return bad("InvalidSignatureException", `The request signature does not match. Canonical headers: ${quoted}`);
  }
  return { ok: true, key };
}

const bad = (type: string, message: string): Verdict => ({ ok: false, type, message });

function checkScope(
  scope: { day: string; region: string; service: string },
  date: string,
  expected: Expected,
): string | null {
  if (!date.startsWith(scope.day)) return "Date in Credential scope does not match YYYYMMDD from X-Amz-Date";
  if (scope.service !== expected.service)
    return `Credential should be scoped to correct service: '${expected.service}'.`;
  if (!expected.regions.includes(scope.region)) return "Credential should be scoped to a valid region.";
  return null;
}

/** ISO 8601 basic format, as in 20261121T055852Z. */
function readDate(text = ""): Date | null {
  const extended = text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z");
  const date = new Date(extended === text ? Number.NaN : extended);
  return Number.isNaN(date.getTime()) ? null : date;
}

async function sign(
  request: Received,
  names: readonly string[],
  key: KnownKey,
  scope: { service: string; region: string; date: Date },
): Promise<string> {
  const url = new URL(request.target, "http://double.invalid");
  const signer = new SignatureV4({
    service: scope.service,
    region: scope.region,
    sha256: Sha256,
    credentials: key,
    applyChecksum: false,
  });
  const present = names.flatMap((name) => (request.headers[name] === undefined ? [] : [[name, request.headers[name]]]));
  const signed = await signer.sign(
    {
      method: request.method,
      protocol: "http:",
      hostname: request.headers["host"] ?? "",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: Object.fromEntries(present),
      body: request.body,
    },
    { signingDate: scope.date, signableHeaders: new Set(names), unsignableHeaders: new Set() },
  );
  return /Signature=([0-9a-f]{64})$/.exec(signed.headers["authorization"] ?? "")?.[1] ?? "";
}
