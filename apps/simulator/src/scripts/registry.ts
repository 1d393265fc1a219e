import { obeyScript } from './obey.ts';
import type { ModelScript } from './script.ts';
import { mixedServerClientToolsScript, pauseTurnScript, webSearchScript } from './server-tool-scripts.ts';
import * as text from './text-scripts.ts';
import { textBetweenToolsAsThinkingScript, thinkingScript } from './thinking-scripts.ts';
import * as tools from './tool-scripts.ts';
import { assertTranscriptScript } from './transcript-script.ts';

/** The scripts by the name used in directives, rules and the configuration. */
export const SCRIPTS: ReadonlyMap<string, ModelScript> = new Map<string, ModelScript>([
  ['obey', obeyScript],
  ['assertTranscript', assertTranscriptScript],
  ['badArgs', tools.badArgsScript],
  ['blankTexts', tools.blankTextsScript],
  ['contextExceeded', text.contextExceededScript],
  ['deepArgs', tools.deepArgsScript],
  ['duplicateToolUse', tools.duplicateToolUseScript],
  ['echo', text.echoScript],
  ['emptyEndTurn', text.emptyEndTurnScript],
  ['errored', text.erroredScript],
  ['fixed', text.fixedScript],
  ['hugeArgs', tools.hugeArgsScript],
  ['hugeText', text.hugeTextScript],
  ['infiniteTools', tools.infiniteToolsScript],
  ['maxTokensMidToolUse', tools.maxTokensMidToolUseScript],
  ['maxTokensText', text.maxTokensTextScript],
  ['mixedServerClientTools', mixedServerClientToolsScript],
  ['parallel', tools.parallelScript],
  ['pauseTurn', pauseTurnScript],
  ['reactsToIsError', tools.reactsToIsErrorScript],
  ['refusal', text.refusalScript],
  ['sequence', tools.sequenceScript],
  ['stopSequence', text.stopSequenceScript],
  ['textBetweenToolsAsThinking', textBetweenToolsAsThinkingScript],
  ['thinking', thinkingScript],
  ['toolLoop', tools.toolLoopScript],
  ['unicode', text.unicodeScript],
  ['unknownBlockType', text.unknownBlockTypeScript],
  ['unknownStopReason', text.unknownStopReasonScript],
  ['unknownTool', tools.unknownToolScript],
  ['webSearch', webSearchScript],
]);
