import type { StreamEvent } from "../../contracts/event.ts";
import type { EventHeader } from "../../publishing/event-headers.ts";
import type { Line } from "../line.ts";
import { Frames } from "./frames.ts";
import { gapNotice, NOTIFICATION_TYPES, notificationOf } from "./upstream-events.ts";

/** Topics with notifications, and those that change rights. */
const NOTIFIED: ReadonlySet<string> = new Set(Object.keys(NOTIFICATION_TYPES));
const RIGHTS: ReadonlySet<string> = new Set(["ACLToken", "ACLPolicy", "ACLRole"]);

/** Whether a line matters to subscribers. One without events stands for a change of entities. */
export const concernsNotifications = (headers: readonly EventHeader[]): boolean =>
  headers.length === 0 ||
  headers.some(({ Topic, Type }) => NOTIFIED.has(Topic) || RIGHTS.has(Topic) || Type === "ACLAuthMethodDeleted");

const known = new WeakMap<Line, readonly Frames[]>();

/** The notifications of lines, each parsed once. The log drops payloads of an account beyond its share. */
export const framesIn = (lines: readonly Line[]): Frames[] => lines.flatMap((line) => framesOf(line));

function framesOf(line: Line): readonly Frames[] {
  const found = known.get(line);
  if (found) return found;
  const isNotified = line.headers.some(({ Topic }) => NOTIFIED.has(Topic));
  const events = isNotified ? (JSON.parse(line.text) as StreamEvent[]) : [];
  const frames = events.flatMap((event) => {
    const { Topic, Index, Payload } = event;
    const isDropped = NOTIFIED.has(Topic) && Payload[Topic] === undefined;
    const notification = isDropped ? gapNotice(Index, Index + 1, Date.now()) : notificationOf(event);
    return notification ? [new Frames(notification)] : [];
  });
  known.set(line, frames);
  return frames;
}
