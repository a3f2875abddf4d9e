/** The text of a policy, coloured: the same text lies behind the field, in the same place. */
import { Field } from "../../components/field.tsx";

interface PolicyTextProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: string | undefined;
  readonly hint: string;
}

export function PolicyText({ value, onChange, ...field }: PolicyTextProps) {
  return (
    <Field label="Rules" {...field}>
      {(ids) => (
        <div class="policy-text">
          <pre aria-hidden="true" class="input mono">
            {coloured(value)}
            {"\n"}
          </pre>
          <textarea
            {...ids}
            class="input mono"
            spellcheck={false}
            value={value}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        </div>
      )}
    </Field>
  );
}

const PARTS = /(#.*|\/\/.*|\/\*[\s\S]*?\*\/)|("deny"|"sudo"|"root")|("(?:[^"\\\n]|\\.)*")|[a-z_]+/gi;

/** Comments, capabilities that need care, other strings, words. */
function coloured(text: string) {
  let end = 0;
  const parts = [...text.matchAll(PARTS)].flatMap((found) => {
    const [part, comment, care, string] = found;
    const before = text.slice(end, found.index);
    end = found.index + part.length;
    const kind = comment ? "note" : care ? "care" : string ? "string" : "word";
    return [before, <span class={`policy-${kind}`}>{part}</span>];
  });
  return [...parts, text.slice(end)];
}
