import { SelectField } from "../../components/field.tsx";
import { providerName } from "../../lib/text.ts";
import { type DestinationRef, keyOf } from "./reads.ts";

interface DestinationFieldProps {
  readonly destinations: readonly DestinationRef[];
  /** `TYPE/NAME`; empty without a choice. */
  readonly value: string;
  readonly onChange: (key: string) => void;
  readonly hint?: string;
}

/** Chooses one of several destinations. */
export function DestinationField({ destinations, ...field }: DestinationFieldProps) {
  return (
    <SelectField
      label="Destination"
      required
      {...field}
      options={[
        { value: "", label: "Choose a destination" },
        ...destinations.map((each) => ({ value: keyOf(each), label: `${each.name} · ${providerName(each.type)}` })),
      ]}
    />
  );
}
