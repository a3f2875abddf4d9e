import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { ReceivedDelivery } from "../doubles/webhook-receiver.ts";
import { type Answer, get, put, send } from "./client.ts";

/** Helpers for tests of event subscriptions. */

export const SECRET = `whsec_${Buffer.from("a signing key of 24 bytes").toString("base64")}`;

interface HookAnswer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  /** Whether its body is larger than the service reads of any, and does not end. */
  readonly endless?: boolean;
}

const base = (): string => env.TEST_DOUBLES.webhooks;
let made = 0;

export interface Received extends ReceivedDelivery {
  readonly lines: readonly { readonly Index: number; readonly Events: readonly { readonly Key: string }[] }[];
  readonly oldestIndex: number | undefined;
}

/** A hook of the receiver's, with the answers to its next requests. */
export async function newHook(...answers: HookAnswer[]) {
  const name = `hook-${++made}-${crypto.randomUUID()}`;
  const set = async (next: readonly HookAnswer[], secret = SECRET) => {
    await fetch(`${base()}/_double/${name}`, {
      method: "PUT",
      body: JSON.stringify({ secret, answers: next }),
    });
  };
  const received = async (): Promise<Received[]> => {
    const response = await fetch(`${base()}/_double/${name}`);
    const all = (await response.json()) as ReceivedDelivery[];
    return all.map((each) => {
      const body = JSON.parse(each.body);
      return { ...each, lines: body.Lines, oldestIndex: body.OldestIndex };
    });
  };
  await set(answers);
  return {
    url: `${base()}/${name}`,
    set,
    received,
    /** The keys of delivered events, in order. @throws the first fault of a request */
    keys: async (): Promise<string[]> => {
      const all = await received();
      expect(all.map(({ fault }) => fault).filter((fault) => fault !== null)).toEqual([]);
      return keysIn(all.filter(({ status }) => status >= 200 && status < 300));
    },
  };
}

export const keysIn = (deliveries: readonly Received[]): string[] =>
  deliveries.flatMap(({ lines }) => lines.flatMap(({ Events }) => Events.map(({ Key }) => Key)));

/** Creates or changes a subscription to all topics. */
export const subscribe = async (name: string, url: string, more: Record<string, unknown> = {}): Promise<void> => {
  const answer = await put(`/v1/event/subscription/${name}`, {
    Target: { Type: "webhook", URL: url, Secret: SECRET },
    ...more,
  });
  expect([answer.status, answer.text]).toEqual([200, ""]);
};

export const subscription = async (name: string) => (await get(`/v1/event/subscription/${name}`)).body;

export const command = (name: string, action: string, body?: unknown): Promise<Answer> =>
  send("PUT", `/v1/event/subscription/${name}/${action}`, body);
