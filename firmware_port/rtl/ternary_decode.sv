// The decoder of what tern_ternary_encode makes: payloads of the modes ternary-zero-run and
// ternary-packed (docs/FORMAT.md, section 3.4), whoever wrote them. A planar column of five values a
// cycle comes out, in the order that the encoder takes them, a run in as many cycles as it has
// columns; a byte a beat goes in, tlast with the last.
//
// tuser comes with tlast: bit 0 corrupt, bit 1 non-finite (of the scale, which is looked at first).
// After an error that ends the columns early, a last beat has tkeep 0. The cfg inputs are stable
// from the first byte of a segment until its last column has left.
module tern_ternary_decode (
    input  logic         clk,
    input  logic         rst,
    input  logic [ 27:0] cfg_columns,    // L = ceil(n / 5) for n values, at least 1
    input  logic [  2:0] cfg_missing,    // 5 L - n: places of the last columns without a value
    input  logic [  7:0] s_axis_tdata,
    input  logic [  0:0] s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    output logic [159:0] m_axis_tdata,
    output logic [ 19:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic [  1:0] m_axis_tuser,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready
);
  localparam [7:0] MODE_ZERO_RUN = 8'h10, MODE_PACKED = 8'h11;
  localparam [7:0] LIMIT = 8'd243;

  logic advance;  // all stages move

  // --- 0: one byte, which may stand for several columns

  logic       held, held_last, held_run, held_plain, held_runs;  // the last two: as a mode
  logic [7:0] held_byte;
  logic [3:0] held_left;  // columns that it stands for
  logic       held_ends;  // held_left is 1
  assign s_axis_tready = !held || (advance && held_ends);

  logic [2:0] head;  // bytes of the head that were read
  logic in_body;
  logic packed_mode;
  logic [31:0] scale;
  logic [23:0] left_high;  // columns to come, 16 left_high + left_low
  logic [3:0] left_low;
  logic high_zero;  // left_high is 0, a cycle late: then left_low is 15, or the head still comes
  logic [2:0] left_few;  // columns to come, at most 7
  logic left_one;
  assign left_few = high_zero && left_low < 4'd7 ? left_low[2:0] : 3'd7;
  assign left_one = high_zero && left_low == 4'd1;
  logic broken;  // the body does not fit, or there is no such mode

  logic runs_follow;  // the byte that comes next is of the body, and there are runs in it
  assign runs_follow = (in_body || (held && head == 3'd4)) && !packed_mode && !(held && held_last);
  logic opens;  // a byte is taken
  assign opens = s_axis_tvalid && s_axis_tready;
  logic is_run;
  assign is_run = s_axis_tdata >= LIMIT;
  always_ff @(posedge clk) begin
    if (rst) begin
      held <= 0;
    end else if (s_axis_tready) begin
      held <= s_axis_tvalid;
    end
    if (opens) begin
      held_byte <= s_axis_tdata;
      held_last <= s_axis_tlast;
      held_run <= is_run;
      held_plain <= s_axis_tdata == MODE_PACKED;
      held_runs <= s_axis_tdata == MODE_ZERO_RUN;
      held_left <= 1;
      held_ends <= 1;
      if (is_run && runs_follow) begin
        held_left <= s_axis_tdata[3:0] - 4'd1;  // 243 is f3: two columns
        held_ends <= 0;
      end
    end else if (held && advance && !held_ends) begin
      held_left <= held_left - 4'd1;
      held_ends <= held_left == 4'd2;
    end
  end

  // What happens to the held byte when the stages move.
  logic step, column, ends, finishes;
  assign step = held && advance;
  assign column = held && in_body && !broken;
  assign ends = held_last && held_ends;  // nothing comes behind it
  assign finishes = held && ends;

  // Whether the body fits its columns so far.
  logic misfit;
  assign misfit = in_body && ((left_one != ends) || (packed_mode && held_run));

  always_ff @(posedge clk) begin
    if (rst) begin
      head <= 0;
      in_body <= 0;
      broken <= 0;
    end else if (step) begin
      if (finishes) begin
        head <= 0;
        in_body <= 0;
        broken <= 0;
      end else begin
        if (!in_body) begin
          head <= head + 3'd1;
          in_body <= head == 3'd4;
          if (head == 3'd0 && !held_plain && !held_runs) begin
            broken <= 1;
          end
        end else if (left_one || (packed_mode && held_run)) begin
          broken <= 1;
        end
      end
    end
    if (step && !in_body) begin
      if (head == 3'd0) begin
        packed_mode <= held_plain;
      end else begin
        scale <= {held_byte, scale[31:8]};
      end
    end
    if (step && !in_body) begin
      {left_high, left_low} <= cfg_columns;
    end else if (step && column) begin
      left_low <= left_low - 4'd1;
      if (left_low == 0) begin
        left_high <= left_high - 24'd1;
      end
    end
    high_zero <= left_high == 0;
  end

  // Part k has no value in the last columns where 5 L - n reaches into it: it has L places, and the
  // parts behind it have none at all then.
  logic many_columns;
  logic [2:0] few_columns;
  logic [4:0] real0;
  logic [3:0] over3, over2, over1;  // places of the parts 3, 2, 1 that lack a value
  always_ff @(posedge clk) begin
    many_columns <= |cfg_columns[27:3];
    few_columns <= many_columns ? 3'd7 : cfg_columns[2:0];
    over3 <= cfg_missing > few_columns ? {1'b0, cfg_missing} - {1'b0, few_columns} : 4'd0;
    over2 <= over3 > {1'b0, few_columns} ? over3 - {1'b0, few_columns} : 4'd0;
    over1 <= over2 > {1'b0, few_columns} ? over2 - {1'b0, few_columns} : 4'd0;
  end
  assign real0 = {
    left_few > cfg_missing, {1'b0, left_few} > over3, {1'b0, left_few} > over2,
    {1'b0, left_few} > over1, 1'b1
  };

  // --- 1 and 2: five digits of a byte, from a table; 3: values

  logic [9:0] digits_of[0:255];
  initial begin
    for (integer i = 0; i < 256; i = i + 1) begin
      digits_of[i] = i >= 243 ? 10'b01_01_01_01_01 : {
        2'(i % 3), 2'(i / 3 % 3), 2'(i / 9 % 3), 2'(i / 27 % 3), 2'(i / 81)
      };
    end
  end

  logic v1, v2, last1, last2;
  logic [4:0] real1, real2;
  logic wrong1, wrong2;
  logic scaled1, scaled2;  // the head was whole
  // Of the scale that was read last: the next one comes later than what this one belongs to is here.
  logic scale_wrong, scale_zero;
  logic [9:0] digits1, digits2;
  always_ff @(posedge clk) begin
    if (advance) begin
      digits1 <= digits_of[held_byte];
      last1 <= finishes;
      real1 <= column ? real0 : 5'd0;
      wrong1 <= finishes && (broken || !in_body || misfit);
      scaled1 <= in_body || head == 3'd4;
    end
    if (rst) begin
      {v1, v2} <= 0;
    end else if (advance) begin
      {v1, v2} <= {column || finishes, v1};
    end
    if (advance) begin
      {digits2, last2, real2, wrong2, scaled2} <= {digits1, last1, real1, wrong1, scaled1};
      scale_wrong <= scale[31] || (&scale[30:23]);
      scale_zero <= scale == 0;
    end
  end

  function automatic logic wrong_padding(input logic [9:0] digits, input logic [4:0] present);
    wrong_padding = 0;
    for (integer i = 0; i < 5; i = i + 1) begin
      if (present != 0 && !present[i] && digits[2*i+:2] != 2'd1) begin
        wrong_padding = 1;
      end
    end
  endfunction

  logic v3, last3;
  logic [159:0] values3;
  logic [4:0] real3;
  logic [1:0] wrong3;
  logic padding3;  // of this segment: a digit that stands for no value is not that of 0
  always_ff @(posedge clk) begin
    if (advance) begin
      for (integer i = 0; i < 5; i = i + 1) begin
        values3[32*i+:32] <= digits2[2*i+:2] == 2'd1 ? 32'd0 : {!digits2[2*i+1], scale[30:0]};
      end
      {last3, real3} <= {last2, real2};
      wrong3 <= {last2 && scaled2 && scale_wrong, wrong2 || (last2 && scaled2 && scale_zero)};
    end
    if (rst) begin
      v3 <= 0;
      padding3 <= 0;
    end else if (advance) begin
      v3 <= v2;
      if (v3 && last3) begin
        padding3 <= v2 && wrong_padding(digits2, real2);
      end else if (v2) begin
        padding3 <= padding3 || wrong_padding(digits2, real2);
      end
    end
  end

  logic [4:0] out_real;
  tern_slice #(
      .WIDTH(168)
  ) out (
      .clk(clk),
      .rst(rst),
      .s_data({last3, wrong3[1], wrong3[0] || (last3 && padding3), real3, values3}),
      .s_valid(v3),
      .s_ready(advance),
      .m_data({m_axis_tlast, m_axis_tuser, out_real, m_axis_tdata}),
      .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready)
  );
  assign m_axis_tkeep = {{4{out_real[4]}}, {4{out_real[3]}}, {4{out_real[2]}}, {4{out_real[1]}}, {4{out_real[0]}}};

  logic unused;
  assign unused = ^s_axis_tkeep;
endmodule
