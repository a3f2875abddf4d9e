import type { IncomingMessage, ServerResponse } from "node:http";
import { type Loopback, received, startLoopback } from "../loopback.ts";
import type { Judge, ServiceAnswer } from "./judge.ts";
import { mailgun, postmark, sendgrid } from "./mail.ts";
import { opsgenie } from "./opsgenie.ts";
import { pagerduty } from "./pagerduty.ts";
import { slack } from "./slack.ts";
import { teams } from "./teams.ts";

/** A request that an account has received. */
export interface ReceivedMessage {
  readonly service: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;
  /** The answer to a request that breaks a rule; null = it breaks none. */
  readonly fault: string | null;
}

interface Account {
  readonly answers: ServiceAnswer[];
  readonly received: ReceivedMessage[];
}

const judges: Readonly<Record<string, Judge>> = {
  slack,
  teams,
  pagerduty,
  opsgenie,
  sendgrid,
  mailgun,
  postmark,
};

/**
 * Services that take messages, at `/ACCOUNT/SERVICE/…`. `PUT /_double/ACCOUNT` sets the answers to the next requests that
 * break no rule, `GET` returns all requests.
 */
export async function startMessageServices(): Promise<Loopback> {
  const accounts = new Map<string, Account>();
  const accountOf = (name: string): Account => {
    const known = accounts.get(name) ?? { answers: [], received: [] };
    accounts.set(name, known);
    return known;
  };

  return startLoopback(async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method, url, headers, body } = await received(incoming);
    const [, first = "", second = "", ...rest] = url.pathname.split("/");
    if (first === "_double") {
      if (method === "PUT") accountOf(second).answers.push(...(JSON.parse(String(body)) as ServiceAnswer[]));
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify(accountOf(second).received));
      return;
    }
    const judge = judges[second];
    if (!judge) {
      outgoing.writeHead(404).end();
      return;
    }
    const account = accountOf(first);
    const [path, text] = [`/${rest.join("/")}${url.search}`, String(body)];
    const json = parsed(text);
    const fault =
      method === "POST" ? judge.faultOf({ method, headers, path, text, json }) : { status: 405, body: "method" };
    const answer = fault ?? account.answers.shift() ?? judge.answer;
    account.received.push({
      service: second,
      path,
      body: text,
      headers,
      status: answer.status,
      fault: fault?.body ?? null,
    });
    outgoing.writeHead(answer.status, answer.headers ?? {}).end(answer.body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
