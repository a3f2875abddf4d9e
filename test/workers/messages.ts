import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { ReceivedMessage } from "../doubles/message-services/server.ts";
import { put } from "./client.ts";

/** Helpers for tests of notification channels. */

let made = 0;

/** An account at the doubles of services that take messages. */
export function newAccount() {
  const base = env.TEST_DOUBLES.messages;
  const name = `a${++made}-${crypto.randomUUID()}`;
  const received = async (): Promise<ReceivedMessage[]> => (await fetch(`${base}/_double/${name}`)).json();
  return {
    /** The address of a service. */
    at: (service: string, path: string) => `${base}/${name}/${service}${path}`,
    /** Sets the answers to the next requests that break no rule. */
    answers: async (...answers: { status: number; body: string; headers?: Record<string, string> }[]) => {
      await fetch(`${base}/_double/${name}`, { method: "PUT", body: JSON.stringify(answers) });
    },
    received,
    /** Bodies of accepted messages, in order. @throws the first fault of a request */
    // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
    messages: async (): Promise<any[]> => {
      const all = await received();
      expect(all.map(({ fault }) => fault).filter((fault) => fault !== null)).toEqual([]);
      return all
        .filter(({ status }) => status < 300)
        .map(({ body, headers }) =>
          headers["content-type"] === "application/json"
            ? JSON.parse(body)
            : Object.fromEntries(new URLSearchParams(body)),
        );
    },
  };
}

const AT = "/v1/sys/notifications";

/** Creates or changes a channel. */
export async function channel(name: string, body: object): Promise<void> {
  const answer = await put(`${AT}/channels/${name}`, body);
  expect([answer.status, answer.text]).toEqual([204, ""]);
}

/** Creates or changes a rule. */
export async function rule(name: string, body: object): Promise<void> {
  const answer = await put(`${AT}/rules/${name}`, body);
  expect([answer.status, answer.text]).toEqual([204, ""]);
}
