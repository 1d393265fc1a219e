import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';

/** A result as text for a model. */
export interface McpResult {
  readonly ok: boolean;
  readonly text: string;
}

/**
 * Converts a result to text: its text parts, one per line, with other parts named. Structured content counts only without
 * parts, because it repeats them.
 */
export function toResultText({ content, structuredContent, isError }: CallToolResult): McpResult {
  const parts = content.map(textOf);
  const text =
    parts.length === 0 && structuredContent !== undefined
      ? JSON.stringify(structuredContent)
      : parts.join('\n');
  return { ok: isError !== true, text };
}

function textOf(part: ContentBlock): string {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'image':
    case 'audio':
      return `[${part.type} ${part.mimeType}, ${part.data.length} characters in base64]`;
    case 'resource_link':
      return `[resource ${part.uri}]`;
    case 'resource':
      return 'text' in part.resource ? part.resource.text : `[resource ${part.resource.uri}, not text]`;
  }
}
