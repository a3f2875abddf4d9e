import { AwsV4Signer } from "aws4fetch";
import { type CloudADouble, defaultKey } from "./server.ts";

/** How a raw request differs from a correct one. */
export interface Sending {
  key?: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
  service?: string;
  region?: string;
  datetime?: string;
  target?: string;
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  /** Replaces the body after signing. */
  sent?: string;
  /** Added after signing. */
  unsigned?: Record<string, string>;
}

/** Time as X-Amz-Date spells it; `ms` since the epoch. */
export const stamp = (ms: number) => new Date(ms).toISOString().replace(/[:-]|\.\d{3}/g, "");

/**
 * Sends single signed requests to a double, right or deliberately wrong. The signer is not the one that the double
 * verifies with.
 */
export function rawClient(double: Pick<CloudADouble, "url">, now: () => number) {
  async function send(body: string, contentType: string, options: Sending) {
    const { target, path = "/", method = "POST", headers = {}, key = defaultKey } = options;
    const { service = "secretsmanager", region = "eu-west-1", datetime = stamp(now()) } = options;
    const signed = await new AwsV4Signer({
      url: double.url + path,
      method,
      body,
      service,
      region,
      datetime,
      accessKeyId: key.accessKeyId,
      secretAccessKey: key.secretAccessKey,
      ...(key.sessionToken === undefined ? {} : { sessionToken: key.sessionToken }),
      headers: { "content-type": contentType, ...(target === undefined ? {} : { "x-amz-target": target }), ...headers },
    }).sign();
    for (const [name, value] of Object.entries(options.unsigned ?? {})) signed.headers.set(name, value);
    const response = await fetch(signed.url, { method, headers: signed.headers, body: options.sent ?? body });
    return { status: response.status, text: await response.text() };
  }

  /** One operation: its answer, or its error's type. */
  async function call(operation: string, parameters: unknown, options: Sending = {}) {
    const body = typeof parameters === "string" ? parameters : JSON.stringify(parameters);
    const target = `secretsmanager.${operation}`;
    const { status, text } = await send(body, "application/x-amz-json-1.1", { target, ...options });
    const answer = text === "" ? {} : JSON.parse(text);
    return status === 200 ? answer : { error: answer.__type, message: answer.message };
  }
  return { send, call };
}
