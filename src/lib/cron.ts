/** A schedule: the next due time strictly after `at` (ms since 1970); null when none is within five years. */
interface Cron {
  after(at: number): number | null;
}

const MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const DAYS = "SUN MON TUE WED THU FRI SAT".split(" ");
const FIELDS = [
  { least: 0, most: 59, names: [] },
  { least: 0, most: 23, names: [] },
  { least: 1, most: 31, names: [] },
  { least: 1, most: 12, names: MONTHS },
  { least: 0, most: 6, names: DAYS },
] as const;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const HORIZON_DAYS = 5 * 366;

/**
 * Parses a cron expression of five fields (minute, hour, day of month, month, day of week) in UTC: lists, ranges, steps
 * and English names. When both kinds of day are restricted, either suffices, as in cron(8). Null when invalid.
 */
export function parseCron(text: string): Cron | null {
  const words = text.trim().split(/\s+/);
  if (words.length !== FIELDS.length) return null;
  const sets = words.map((word, index) => parseField(word, FIELDS[index] ?? FIELDS[0]));
  const [minutes, hours, days, months, weekdays] = sets;
  if (!minutes || !hours || !days || !months || !weekdays) return null;
  const [anyDay, anyWeekday] = [words[2], words[4]].map((word) => word?.startsWith("*") || word === "?");
  const onDay = (date: Date): boolean => {
    const [day, weekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())];
    return months.has(date.getUTCMonth() + 1) && (anyDay || anyWeekday ? day && weekday : day || weekday);
  };
  return {
    after(at) {
      const first = Math.floor(at / MINUTE_MS + 1) * MINUTE_MS;
      const today = Math.floor(first / DAY_MS) * DAY_MS;
      for (let n = 0; n < HORIZON_DAYS; n++) {
        const midnight = today + n * DAY_MS;
        if (!onDay(new Date(midnight))) continue;
        for (let minute = midnight < first ? (first - midnight) / MINUTE_MS : 0; minute < 1440; minute++) {
          if (hours.has(Math.floor(minute / 60)) && minutes.has(minute % 60)) return midnight + minute * MINUTE_MS;
        }
      }
      return null;
    },
  };
}

interface Field {
  readonly least: number;
  readonly most: number;
  readonly names: readonly string[];
}

function parseField(word: string, field: Field): Set<number> | null {
  const values = new Set<number>();
  for (const part of word.split(",")) {
    const found = /^(?:[*?]|(\w+)(?:-(\w+))?)(?:\/(\d{1,4}))?$/.exec(part);
    if (!found) return null;
    const [, from, to, by] = found;
    const first = from === undefined ? field.least : numberOf(from, field);
    const last = to !== undefined ? numberOf(to, field) : from === undefined || by !== undefined ? field.most : first;
    const step = by === undefined ? 1 : Number(by);
    if (first === null || last === null || first > last || step === 0) return null;
    for (let value = first; value <= last; value += step) values.add(value);
  }
  return values;
}

function numberOf(word: string, { least, most, names }: Field): number | null {
  const named = names.indexOf(word.toUpperCase());
  const value = named >= 0 ? named + least : /^\d{1,4}$/.test(word) ? Number(word) : -1;
  return value >= least && value <= most ? value : null;
}
