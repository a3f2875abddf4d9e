import type { Notification } from "../../../contracts/notification-rule.ts";

/** The parts of a message to a service. */
export interface Message {
  readonly notification: Notification;
  /** The target's URL. */
  readonly url: string;
  /** The secret of the service; null for services whose URL is the secret. */
  readonly secret: string | null;
  readonly options: Readonly<Record<string, string>>;
}

/** One request of a service. */
export interface MessageRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A service that takes messages: its fields, and its requests. */
export interface MessageFormat {
  /** The service's own name. */
  readonly label: string;
  /** The URL of the service; null where each channel has one of its own. */
  readonly url: string | null;
  /** The name of the secret in the service's words; null where the URL is the secret. */
  readonly secret: string | null;
  /** Names of further fields of a channel, each required. */
  readonly options: readonly string[];
  readonly request: (message: Message) => MessageRequest;
}

/** At most `most` UTF-16 units, with an ellipsis for what is left out. No surrogate pair is cut. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const kept = text.slice(0, most - 1);
  return `${/[\uD800-\uDBFF]$/.test(kept) ? kept.slice(0, -1) : kept}…`;
}

/** The subjects of a message, one a line. */
export const subjectLines = ({ Subjects }: Notification): string[] =>
  Subjects.map(({ Name, Detail }) => (Detail === "" ? Name : `${Name}: ${Detail}`));

export const json = (url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): MessageRequest => ({
  url,
  headers: { "Content-Type": "application/json", ...headers },
  body: JSON.stringify(body),
});
