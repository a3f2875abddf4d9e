import type { WireRequest } from "../api/client.ts";
import { type Command, commandsOf, type Tool } from "../api/commands.ts";
import { signal } from "../lib/signal.ts";
import { Code } from "./code.tsx";
import { Segments } from "./field.tsx";

/** The tool that the person has chosen, for all commands of the page. */
const chosenTool = signal<Tool>((localStorage.getItem("sallyport.tool") as Tool | null) ?? "curl");

/**
 * A request as a command of `curl`, `vault` or `nomad`. Values that are secrets are left out by the caller
 * (`withoutValues`).
 */
export function AsCommand({ request, open = false }: { readonly request: WireRequest; readonly open?: boolean }) {
  return (
    <details class="as-command" open={open}>
      <summary>As a command</summary>
      <Commands request={request} />
    </details>
  );
}

function Commands({ request }: { readonly request: WireRequest }) {
  const commands = commandsOf(request);
  const selected = selectedOf(commands);
  return (
    <div class="commands">
      {selected && (
        <Segments
          label="Tool"
          value={selected.tool}
          options={commands.map(({ tool }) => ({ value: tool, label: tool }))}
          onChange={chooseTool}
        />
      )}
      <CommandText request={request} />
    </div>
  );
}

/** The command of the chosen tool only; `ToolChoice` is somewhere above. */
export function CommandText({ request }: { readonly request: WireRequest }) {
  const selected = selectedOf(commandsOf(request));
  return selected ? <Code text={selected.text} label={`the ${selected.tool} command`} wrap /> : null;
}

/** Chooses the tool for several commands. */
export function ToolChoice() {
  return (
    <Segments
      label="Tool"
      value={chosenTool.value === "curl" ? "curl" : "vault"}
      options={[
        { value: "curl", label: "curl" },
        { value: "vault", label: "vault and nomad" },
      ]}
      onChange={chooseTool}
    />
  );
}

/** `vault` and `nomad` are one choice: a request has one of the two. */
const selectedOf = (commands: readonly Command[]): Command | undefined =>
  commands.find(({ tool }) => (tool === "curl") === (chosenTool.value === "curl")) ?? commands[0];

function chooseTool(tool: Tool): void {
  chosenTool.value = tool;
  localStorage.setItem("sallyport.tool", tool);
}
