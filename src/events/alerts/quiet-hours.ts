import type { QuietHours } from "../../contracts/notification-rule.ts";

const MINUTES_A_DAY = 1_440;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

const minutesOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));

/** Whether the runtime has a time zone of this name. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Whether nothing is sent at a moment. A range over midnight belongs to the day on which it begins. */
export function isQuiet({ from, to, days, timeZone }: QuietHours, at: number): boolean {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone,
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  }).formatToParts(at);
  const part = (type: string): string => parts.find((each) => each.type === type)?.value ?? "";
  const day = DAYS.indexOf(part("weekday"));
  const minute = Number(part("hour")) * 60 + Number(part("minute"));
  const [begin, end] = [minutesOf(from), minutesOf(to)];
  const beginsOn = (which: number): boolean => days.length === 0 || days.includes((which + 7) % 7);
  if (begin < end) return beginsOn(day) && minute >= begin && minute < end;
  const length = (end - begin + MINUTES_A_DAY) % MINUTES_A_DAY || MINUTES_A_DAY;
  return (beginsOn(day) && minute >= begin) || (beginsOn(day - 1) && minute < begin + length - MINUTES_A_DAY);
}
