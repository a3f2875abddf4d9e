import { AwsV4Signer } from "aws4fetch";
import { type Call, failure, type Send } from "../outcome.ts";
import type { Credentials } from "./connection.ts";
import type { CloudAService } from "./errors.ts";

/** Requests of AWS: addresses by partition, and Signature Version 4. */

/** The regional endpoint; the partitions' domains are those of the vendor's SDK (partitions.json). */
export function endpoint(service: CloudAService, region: string): string {
  const domain = region.startsWith("cn-")
    ? "amazonaws.com.cn"
    : region.startsWith("eusc-")
      ? "amazonaws.eu"
      : "amazonaws.com";
  return `https://${service}.${region}.${domain}`;
}

/** IAM has one endpoint in each partition, and one region of signatures. */
export function iamPlace(region: string): { readonly url: string; readonly region: string } {
  if (region.startsWith("cn-")) return { url: "https://iam.cn-north-1.amazonaws.com.cn", region: "cn-north-1" };
  if (region.startsWith("us-gov-")) return { url: "https://iam.us-gov.amazonaws.com", region: "us-gov-west-1" };
  return region.startsWith("eusc-")
    ? { url: "https://iam.eusc-de-east-1.amazonaws.eu", region: "eusc-de-east-1" }
    : { url: "https://iam.amazonaws.com", region: "us-east-1" };
}

interface SignedPost {
  url: string;
  service: CloudAService;
  region: string;
  credentials: Credentials;
  headers: Record<string, string>;
  /** A string, because the signer hashes strings only. */
  body: string;
}

/** Cache of signing keys by secret key, day, region and service: the derivation is the main cost of a signature. */
const derived = new Map<string, ArrayBuffer>();
const MAX_DERIVED = 1_000;

function signingKeys(): Map<string, ArrayBuffer> {
  if (derived.size >= MAX_DERIVED) derived.clear();
  return derived;
}

export async function signedPost(send: Send, { url, body, credentials, ...rest }: SignedPost): Promise<Call> {
  if (!URL.canParse(url)) {
    return { ok: false, outcome: failure("client", "invalid_url", "The provider's base URL setting is not a URL.") };
  }
  // Only the signer of the library: its client sleeps and retries up to ten times by default.
  // Service and region are given, because the signer would derive them from the host name, which may be a setting.
  const signer = new AwsV4Signer({ method: "POST", url, body, cache: signingKeys(), ...credentials, ...rest });
  const { headers, url: target } = await signer.sign();
  return send([target.toString(), { method: "POST", headers, body }]);
}

/** A call of the query protocol: a form request, answered with XML. */
export interface QueryCall {
  readonly url: string;
  readonly service: "iam" | "sts";
  readonly region: string;
  readonly action: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Null: not signed. */
  readonly credentials: Credentials | null;
}

const VERSIONS = { iam: "2010-05-08", sts: "2011-06-15" } as const;

/** A form as botocore writes it: emulators that read forms before they check signatures write them so again. */
const formOf = (parameters: Readonly<Record<string, string>>): string =>
  new URLSearchParams(parameters).toString().replaceAll("*", "%2A").replaceAll("%7E", "~");

export function queryCall(
  send: Send,
  { url, service, region, action, parameters, credentials }: QueryCall,
): Promise<Call> {
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const body = formOf({ Action: action, Version: VERSIONS[service], ...parameters });
  return credentials === null
    ? send([url, { method: "POST", headers, body }])
    : signedPost(send, { url, service, region, credentials, headers, body });
}
