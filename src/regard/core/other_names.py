"""Names that other libraries have for facts and recipe keys, for messages about unknown names."""

OTHER_NAMES = {
    "depth": "n_layers n_layer nlayers num_layers num_hidden_layers layers num_encoder_layers "
    "num_decoder_layers encoder_layers decoder_layers n_blocks num_blocks",
    "width": "hidden_size hidden_dim d_model n_embd dim model_dim embed_dim emb_dim embedding_dim",
    "heads": "n_heads n_head nhead num_heads num_attention_heads attention_heads",
    "kv_heads": "num_key_value_heads n_kv_heads",
    "inner": "intermediate_size d_ff d_inner n_inner ffn_dim mlp_dim dim_feedforward",
    "longest": "max_position_embeddings n_positions n_ctx max_seq_len max_seq_length "
    "model_max_length max_length max_len seq_len block_size context_length",
    "vocab": "vocab_size n_vocab",
    "eps": "layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps adam_epsilon",
    "dropout": "dropout_rate dropout_prob hidden_dropout_prob resid_pdrop drop_rate",
    "attention_dropout": "attention_probs_dropout_prob attn_pdrop attn_dropout",
    "activation": "hidden_act activation_function act",
    "init_std": "initializer_range",
    "rate": "lr learning_rate max_lr peak_lr",
    "decay": "weight_decay wd",
    "warmup": "warmup_steps num_warmup_steps warmup_updates warmup_iters",
    "schedule": "lr_scheduler lr_scheduler_type scheduler",
    "betas": "adam_betas adam_beta1 adam_beta2 beta1 beta2",
    "clip": "max_grad_norm grad_clip gradient_clip gradient_clip_val clip_norm",
    "accumulate": "gradient_accumulation_steps grad_accum accumulate_grad_batches update_freq",
    "rows": "batch_size per_device_train_batch_size train_batch_size",
    "tokens": "max_tokens batch_tokens",
    "steps": "max_steps num_steps n_steps total_steps train_steps max_updates max_iters iterations",
    "epochs": "num_epochs n_epochs num_train_epochs max_epochs",
    "smoothing": "label_smoothing label_smoothing_factor",
    "precision": "dtype torch_dtype fp16 bf16 amp mixed_precision",
    "evaluate_every": "eval_steps eval_every eval_interval val_check_interval",
    "report_every": "logging_steps log_every log_interval log_every_n_steps",
    "checkpoint_every": "save_steps save_every save_interval",
    "patience": "early_stopping early_stopping_patience",
    "metric": "metric_for_best_model monitor",
}
"""Facts and recipe keys, with their names in other libraries."""
FACTS = (
    *("depth", "width", "heads", "kv_heads", "inner", "dropout", "attention_dropout"),
    *("activation", "init_std"),
)
"""Those of a model, whatever recipe keys have the same name."""

_OURS = {name: ours for ours, names in OTHER_NAMES.items() for name in names.split()}


def our_name(name: str) -> str | None:
    """The fact or recipe key that has this name in another library; None: unknown."""
    return _OURS.get(name.rpartition(".")[2].lower().replace("-", "_"))
