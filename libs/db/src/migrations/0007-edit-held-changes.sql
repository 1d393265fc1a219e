-- The last edit of a held change by a caller; null: the change is as its agent wrote it. The edited text is the draft's head.
alter table held_change add column edited_at timestamptz;

-- `edited`: the call's text was edited in a review before it took effect.
alter table block_revision
  drop constraint block_revision_resolution,
  add constraint block_revision_resolution check (resolution in ('clean', 'merged', 'overwrote', 'edited'));
