import { Segments } from "../../components/field.tsx";

/** Origins of associations: a request, or rules by name. Answers without a rule name none. */

interface WithOrigins {
  readonly origins?: readonly string[] | undefined;
}

const MANUAL = "manual";

const originsOf = ({ origins }: WithOrigins): readonly string[] => origins ?? [MANUAL];

const wordOf = (origin: string): string => (origin === MANUAL ? "By hand" : origin.replace(/^rule:/, "Rule "));

/** The origins of an entry, in words. */
export const originWords = (entry: WithOrigins): string => originsOf(entry).map(wordOf).join(", ");

export const isOf = (entry: WithOrigins, origin: string): boolean => origin === "" || originsOf(entry).includes(origin);

/** Entries side by side that have the same origins. */
export const byOrigin = (one: WithOrigins, other: WithOrigins): number =>
  originWords(one).localeCompare(originWords(other));

/** Whether a rule wants some entry; otherwise all are set by hand. */
export const hasRules = (entries: readonly WithOrigins[]): boolean => entries.some(({ origins }) => origins);

/** Chooses the entries of one origin. Shown once a rule wants some. */
export function OriginFilter({
  entries,
  value,
  onChange,
}: {
  readonly entries: readonly WithOrigins[];
  readonly value: string;
  readonly onChange: (origin: string) => void;
}) {
  if (!hasRules(entries)) return null;
  const groups = Map.groupBy(entries.flatMap(originsOf), (origin) => origin);
  const options = [...groups].sort().map(([origin, all]) => ({
    value: origin,
    label: `${wordOf(origin)} (${all.length})`,
  }));
  return (
    <Segments label="Origin" value={value} options={[{ value: "", label: "All" }, ...options]} onChange={onChange} />
  );
}
