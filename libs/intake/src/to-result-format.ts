import type { JsonObject, ResultFormat } from '@nightshift/agent-core';
import type { ResponseFormat } from './request.ts';

/** What results must look like by one of Letta's response formats; null for `text`, which asks for nothing. */
export function toResultFormat(format: ResponseFormat): ResultFormat | null {
  switch (format.type) {
    case 'text':
      return null;
    case 'json_object':
      return { schema: { type: 'object' } };
    case 'json_schema':
      return { schema: format.json_schema.schema as JsonObject };
  }
}
