/** Something that systems of this kind have been seen to do wrong. */
export interface Defect {
  /** The name that tests carry. Names are never given again. */
  readonly row: string;
  readonly defect: string;
  /** Why there is nothing to test here; without it, some test must carry the name. */
  readonly absent?: string;
}

export interface DefectGroup {
  readonly title: string;
  readonly defects: readonly Defect[];
}

const STYLE = 'it is about how source is written, and nobody outside can see it.';
const NO_ATTACHMENTS = 'there are no attachments.';

export const DEFECTS: readonly DefectGroup[] = [
  {
    title: 'Batches of agents',
    defects: [
      {
        row: 'B1',
        defect: 'One agent that rewrites its memory keeps the calls of all others from being carried out.',
      },
      { row: 'B2', defect: 'After such a rewrite the others fail, although their steps count as done.' },
      { row: 'B3', defect: 'One answer in words stops the whole batch, which then runs for ever.' },
      { row: 'B4', defect: 'Of parallel calls only the first is carried out.' },
      { row: 'B5', defect: 'Calls are stored under other ids than the provider gave them.' },
      { row: 'B6', defect: 'Text before a call and thinking with its signature are dropped.' },
      { row: 'B7', defect: 'Calls of most tools fail, and nobody looks at what the result says.' },
      { row: 'B8', defect: 'A call that failed is reported to the model as a success.' },
      { row: 'B9', defect: 'A crash between the create and its record loses a batch that is paid for.' },
      { row: 'B10', defect: 'The client sends a create again by itself after its answer was lost.' },
      { row: 'B11', defect: 'What the user said is gone from the second step on.' },
      { row: 'B12', defect: 'An agent that clears its messages loses them between the steps of one run.' },
      { row: 'B13', defect: 'A batch in which everything fails never ends.' },
      { row: 'B14', defect: 'A batch counts as completed before its results were fetched.' },
      { row: 'B15', defect: 'Half a result file is taken for a whole one.' },
      { row: 'B16', defect: 'What happens to one batch decides whether others go on.' },
      { row: 'B17', defect: 'One unknown result loses those of every other batch.' },
      {
        row: 'B18',
        defect: 'A statement with parameters for each row fails on batches of the allowed size.',
      },
      { row: 'B19', defect: 'One bad item, such as odd arguments or a missing block, fails all.' },
      { row: 'B20', defect: 'Items that failed or expired are neither tried again nor ended.' },
      { row: 'B21', defect: 'A result that is no answer is handled as a call of no tool.' },
      { row: 'B22', defect: 'Expired means failed in one place and expired in another.' },
      {
        row: 'B23',
        defect: 'A batch that is being cancelled is no longer asked for, and paid answers are lost.',
      },
      { row: 'B24', defect: 'The step limit is off by one, or taken from elsewhere than the request.' },
      {
        row: 'B25',
        defect: "One agent's provider and key are used for all.",
        absent: 'a deployment has one provider and one key.',
      },
      { row: 'B26', defect: 'The same agent twice in a batch breaks it, after it was paid.' },
      { row: 'B27', defect: 'An unknown agent fails a request that has already stored half of itself.' },
      { row: 'B28', defect: 'A conditional rule is asked without the result that it depends on.' },
      {
        row: 'B29',
        defect: 'Approvals, required tools, fixed arguments and forced choices count for nothing.',
      },
      { row: 'B30', defect: 'Calling a tool that has a limit forces the run to go on.' },
      { row: 'B31', defect: 'Of several writers of a shared block the last wins, silently.' },
      {
        row: 'B32',
        defect: 'Writes of many blocks at once heed neither limit nor read-only, and leave no history.',
      },
      { row: 'B33', defect: 'Two batches of one agent overwrite each other’s messages.' },
      { row: 'B34', defect: 'A context only grows, until the provider refuses it.' },
      { row: 'B35', defect: 'Everything is sent as one create from within the request, whatever its size.' },
      { row: 'B36', defect: 'Batched steps leave neither usage nor cost nor a row.' },
      { row: 'B37', defect: 'A cancel stops half-way, leaves items open, or is taken of what has ended.' },
      { row: 'B38', defect: 'A cancelled batch is resumed, pays for another step, and counts as completed.' },
      { row: 'B39', defect: 'The list of batches shows only those that run.' },
      {
        row: 'B40',
        defect: 'Callbacks are sent once, unsigned, not for every end, or to an address called None.',
      },
      { row: 'B41', defect: 'Batches are paid for while nobody is there to fetch their results.' },
      { row: 'B42', defect: 'Lists cannot be paged, and ignore what they are asked.' },
      { row: 'B43', defect: 'A batch shows neither counts nor progress nor errors.' },
      { row: 'B44', defect: 'Two leaders at once make calls and pay twice.' },
      { row: 'B45', defect: 'Batches older than two weeks are forgotten, or starve behind younger ones.' },
      { row: 'B46', defect: 'Whole batches are held in memory.' },
      {
        row: 'B47',
        defect: 'After a crash calls with side effects are made again, or their results are lost.',
      },
      { row: 'B48', defect: 'A call that hangs holds up everything.' },
      {
        row: 'B49',
        defect: 'Tools get the secrets of the whole organisation, and none of their agent.',
        absent:
          'tools are given no secrets, and find none in their environment. Modules are trusted code: they have the rights of the worker.',
      },
      { row: 'B50', defect: 'The arguments that are stored are not those that the model sent.' },
      { row: 'B51', defect: 'Untyped values, special cases and redundant maps.', absent: STYLE },
      { row: 'B52', defect: 'Every agent waits for the slowest before any takes its next step.' },
      { row: 'B53', defect: 'A create that is repeated after an error makes a second batch.' },
      { row: 'B54', defect: 'Messages refer to items that were never stored.' },
    ],
  },
  {
    title: 'Memory, blocks and tool rules',
    defects: [
      { row: 'B60', defect: 'A rewrite of a missing block neither makes it nor says what there is.' },
      { row: 'B60a', defect: 'Editing one block sets another back to what the agent last saw of it.' },
      { row: 'B60b', defect: 'A write is left out because the old prompt happens to say the same.' },
      { row: 'B61', defect: 'A block with a slash in its label can be made and not deleted.' },
      { row: 'B62', defect: 'An insert without a line number fails.' },
      { row: 'B63', defect: 'Read-only blocks can be deleted and renamed, and failures come as successes.' },
      { row: 'B64', defect: 'A rename takes a label that is in use.' },
      {
        row: 'B65',
        defect: 'A patch of several blocks is applied in part, and a move comes before its block.',
      },
      { row: 'B66', defect: 'Lines that look like headings of a patch can be neither added nor removed.' },
      { row: 'B67', defect: 'Any edit turns every tab of a block into spaces.' },
      { row: 'B68', defect: 'Line numbers of the prompt end up in the memory.' },
      { row: 'B69', defect: 'The limit of a block is never enforced.' },
      { row: 'B70', defect: 'A search up to a day leaves that day out, and counts what it does not show.' },
      { row: 'B71', defect: 'After an undo and an edit two versions of a block bear one number.' },
      { row: 'B72', defect: 'Edits of tools leave nothing that could be undone.' },
      { row: 'B73', defect: 'The same function is written twice.', absent: STYLE },
      { row: 'B74', defect: 'Text of a block can close its element and pose as the prompt.' },
      { row: 'B75', defect: 'The prompt still shows a block that was taken away.' },
      { row: 'B76', defect: 'Each call counts twice against its limit.' },
      { row: 'B77', defect: 'A conditional rule mistakes booleans and numbers, or breaks on other JSON.' },
      { row: 'B78', defect: 'A first tool that is not attached makes a request that offers no tools.' },
      {
        row: 'B79',
        defect: 'Sets in random order change prompts and error texts from one time to the next.',
      },
      { row: 'B79a', defect: 'Rules that allow nothing open every tool.' },
      { row: 'B79b', defect: 'After an interruption a conditional rule reads another form of the result.' },
      { row: 'B79c', defect: 'Beside an ordinary call a terminal one does not end the run.' },
      { row: 'B79d', defect: 'Prompts differ by agent, time and step, so that nothing of them is cached.' },
    ],
  },
  {
    title: 'Conversations',
    defects: [
      { row: 'B80', defect: 'The first change of memory fails.' },
      { row: 'B81', defect: 'Memory is loaded once, and its changes are not shown.' },
      { row: 'B82', defect: 'A summary is written over what is known of the user.' },
      { row: 'B83', defect: 'Messages are stored at the end of a turn, and lost with a crash.' },
      { row: 'B84', defect: 'A model that goes on calling tools is never stopped.' },
      { row: 'B85', defect: 'Bad arguments are replaced by none, and the call is made.' },
      { row: 'B86', defect: 'Of several calls of an answer one is made.' },
      {
        row: 'B87',
        defect: 'Errors never reach the reader of a stream.',
        absent: 'there are no event streams.',
      },
      { row: 'B88', defect: 'The model is later shown results in another form than at first.' },
      {
        row: 'B89',
        defect: 'An answer that was cut off or refused is asked for again without anything new.',
      },
      { row: 'B90', defect: 'Things are worked out twice.', absent: STYLE },
    ],
  },
  {
    title: 'Turns and sessions',
    defects: [
      { row: 'B100', defect: 'A call of an unknown tool ends everything.' },
      { row: 'B101', defect: 'Attachments of the input are given back as output.', absent: NO_ATTACHMENTS },
      { row: 'B102', defect: 'A search that finds nothing fails.' },
      {
        row: 'B103',
        defect: 'A retrieval ends under another id than it began.',
        absent: 'memory is not fetched in steps of its own.',
      },
      { row: 'B104', defect: 'A turn that has ended goes on unless its caller stops listening.' },
      { row: 'B105', defect: 'What a filter stopped is shown to the model again later.' },
      { row: 'B106', defect: 'One guard is reported for all.', absent: 'there are no guards.' },
      { row: 'B107', defect: 'Sessions live in memory, and are stored when all went well.' },
      { row: 'B108', defect: 'Addresses that callers give lead into the own network.' },
      { row: 'B109', defect: 'Attachments fail where there is no memory tool.', absent: NO_ATTACHMENTS },
      {
        row: 'B110',
        defect: 'One text too long keeps out all that follow it.',
        absent: 'no documents are put into prompts.',
      },
      { row: 'B111', defect: 'The documentation names states that do not exist.' },
      { row: 'B112', defect: 'A list is declared as text.', absent: STYLE },
      { row: 'B113', defect: 'Results of tools can be handed in in two ways.' },
      { row: 'B114', defect: 'A repeated answer to a waiting turn runs it twice.' },
      { row: 'B115', defect: 'Pages by offset lose items and show others twice.' },
      {
        row: 'B116',
        defect: 'Whether tools are added or replaced depends on where they are given.',
        absent: 'there are no groups of tools; a list replaces, and attaching adds.',
      },
      { row: 'B117', defect: 'Turns show no usage and cannot be listed, filtered or cancelled.' },
    ],
  },
  {
    title: 'Task loops',
    defects: [
      { row: 'B120', defect: 'A crash at the last item loses the results of all.' },
      { row: 'B121', defect: 'The loop of one item ends the whole batch.' },
      {
        row: 'B122',
        defect: 'One result that cannot be mapped loses all.',
        absent: 'workers map no results by code of the caller.',
      },
      { row: 'B123', defect: 'The next items wait until the last of a group is done.' },
      {
        row: 'B124',
        defect: 'What is called concurrent runs one by one unless told otherwise.',
        absent: 'there is no sequential mode.',
      },
      { row: 'B125', defect: 'A cap is looked at after the money is spent, and off when it cannot be read.' },
      { row: 'B126', defect: 'Costs are counted per process, not per item.' },
      { row: 'B127', defect: 'While somebody is waited for, no limit holds.' },
      { row: 'B128', defect: 'Sub-tasks are out of reach of a stop.', absent: 'runs start no other runs.' },
      {
        row: 'B129',
        defect: 'Two versions of the same loop behave differently.',
        absent: 'there is one.',
      },
      { row: 'B130', defect: 'A tool that returns nothing breaks the loop.' },
      { row: 'B131', defect: 'A certain word anywhere in an answer ends the task, and is cut out of it.' },
      { row: 'B132', defect: 'An empty result counts as none.' },
      { row: 'B133', defect: 'The documentation gives other defaults than the code.' },
      { row: 'B134', defect: 'A switched-off check runs all the same.' },
      { row: 'B135', defect: 'Copies of an agent share what one of them changes.' },
      { row: 'B136', defect: 'An end on the last step is taken for the limit.' },
      { row: 'B137', defect: 'Only loops that repeat to the letter are noticed.' },
      { row: 'B138', defect: 'Of several results of tools the first is kept.' },
      { row: 'B139', defect: 'Defaults are shared between calls.', absent: STYLE },
    ],
  },
];
